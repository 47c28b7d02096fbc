//! Runs under several policies, driven as one until a comparison tells them apart.
//!
//! The policies of a convoy differ in thresholds alone ([`Thresholds`]), and an engine tells its
//! observer every comparison with a threshold. As long as each comes out the same for all members, all
//! their runs are the run of the first. Where one does not, those that it tells apart leave with a
//! copy of the run as it stood before the event. An engine that is kept one event behind provides its
//! part of that copy; world, clock and bill have not moved yet.

use std::cell::RefCell;
use std::ops::Range;

use holdback_engine::Money;
use holdback_engine::protocol::{
    Action, Decision, Event as EngineEvent, LimitsEngine, Micros, Observer, Thresholds,
};

use super::{Company, Course, Driver, Junction, Plan, Witness, settle};
use crate::tally::RunRecord;
use crate::world::World;

/// Drives runs under policies that differ in thresholds alone, reusing its memory.
pub struct Convoy<'p, E: LimitsEngine, W: World> {
    lead: Driver<E, W::Mark>,
    members: Members<'p, E, W>,
}

/// A run that has left the others.
struct Branch<E: LimitsEngine, W: World> {
    driver: Driver<E, W::Mark>,
    world: W,
    course: Course,
    action: Action,
    members: Range<usize>,
}

/// Those who are driven as one, and those who have left and wait.
struct Members<'p, E: LimitsEngine, W: World> {
    plans: Vec<Plan<'p, E::Config>>,
    /// All are held against the same caps on money and time.
    same_bounds: bool,
    thresholds: Table,
    /// All members; those who go together stand side by side.
    places: Vec<usize>,
    /// Places of the members that the run in progress stands for; it is the first one's.
    together: Range<usize>,
    /// Memory of [`Members::stay`].
    moved: Vec<usize>,
    watch: Watch,
    /// The engine one event ago, while there is more than one member.
    behind: E,
    /// In boxes, as each is some kilobytes and changes hands four times.
    left: Vec<Box<Branch<E, W>>>,
    spare: Vec<Box<Branch<E, W>>>,
}

impl<'p, E: LimitsEngine, W: World> Convoy<'p, E, W> {
    /// A convoy of at least one policy.
    pub fn new(plans: Vec<Plan<'p, E::Config>>) -> Self {
        let first = plans[0].config;
        let thresholds = plans.iter().map(|plan| plan.config.thresholds());
        let thresholds = Table::new(&thresholds.collect::<Vec<_>>());
        Convoy {
            lead: Driver::new(first),
            members: Members {
                same_bounds: plans.iter().all(|plan| bounds(plan) == bounds(&plans[0])),
                watch: Watch::new(&thresholds),
                thresholds,
                places: Vec::new(),
                moved: Vec::new(),
                together: 0..0,
                behind: E::new(first),
                left: Vec::new(),
                spare: Vec::new(),
                plans,
            },
        }
    }

    /// Drives run number `run` under all policies. `deliver` gets each different record once, with
    /// the members that it belongs to.
    pub fn run(&mut self, world: &mut W, run: u64, mut deliver: impl FnMut(&RunRecord, &[usize])) {
        let members = &mut self.members;
        members.places.clear();
        members.places.extend(0..members.plans.len());
        members.together = 0..members.plans.len();
        members.watch();
        let plan = members.plans[0];
        members.behind.reset(plan.config);
        let (course, action) = self.lead.begin(&plan, world, run, &mut (), members);
        let record = self
            .lead
            .go_on(&plan, world, course, action, run, &mut (), members);
        members.hand_over(&record, &mut deliver);
        while let Some(mut branch) = members.left.pop() {
            members.together = branch.members.clone();
            members.watch();
            if members.together.len() > 1 {
                members.behind.clone_from(&branch.driver.engine);
            }
            let plan = members.plans[members.places[members.together.start]];
            let record = branch.driver.go_on(
                &plan,
                &mut branch.world,
                branch.course,
                branch.action,
                run,
                &mut (),
                members,
            );
            members.hand_over(&record, &mut deliver);
            members.spare.push(branch);
        }
    }
}

impl<E: LimitsEngine, W: World> Members<'_, E, W> {
    /// Watches for comparisons that tell the present members apart.
    fn watch(&mut self) {
        let members = &self.places[self.together.clone()];
        self.watch.over(&self.thresholds, members);
    }

    /// Of the members at these places, those who answer as the first does stay in front; returns the
    /// places of the others.
    fn stay(&mut self, places: Range<usize>) -> Range<usize> {
        let members = &mut self.places[places.clone()];
        let staying = self.watch.sort(&self.thresholds, members, &mut self.moved);
        places.start + staying..places.end
    }

    /// A run has ended: its record, held against each member's own cap on money and time.
    fn hand_over(&self, record: &RunRecord, deliver: &mut impl FnMut(&RunRecord, &[usize])) {
        let bounds = |member: usize| bounds(&self.plans[member]);
        let members = &self.places[self.together.clone()];
        let own = bounds(members[0]);
        if self.same_bounds || members.iter().all(|member| bounds(*member) == own) {
            return deliver(record, members);
        }
        for member in members {
            let mut settled = *record;
            settle(&mut settled, self.plans[*member].facts);
            deliver(&settled, &[*member]);
        }
    }

    /// The event has told members apart: those who go another way than the first one leave with a
    /// copy of the run before it.
    #[cold]
    fn part(&mut self, at: &Junction<'_, E::Config, E::Checkpoint, W>) {
        let mut others = self.stay(self.together.clone());
        self.together.end = others.start;
        while !others.is_empty() {
            let mut branch = self.branch(at);
            let config = self.plans[self.places[others.start]].config;
            let members = &self.places[others.clone()];
            self.watch.over(&self.thresholds, members);
            let (engine, now) = (&mut branch.driver.engine, at.course.now);
            branch.action = engine.advance(config, now, at.event, &mut self.watch);
            let rest = self.stay(others.clone());
            branch.members = others.start..rest.start;
            others = rest;
            self.left.push(branch);
        }
        self.watch();
    }

    /// A copy of the run that stands for these members, with the engine as it is behind. Its action is
    /// still to be asked for.
    fn branch(&mut self, at: &Junction<'_, E::Config, E::Checkpoint, W>) -> Box<Branch<E, W>> {
        let mut branch = match self.spare.pop() {
            Some(mut branch) => {
                branch.world.clone_from(at.world);
                branch.course = *at.course;
                branch
            }
            None => Box::new(Branch {
                driver: Driver::new(at.config),
                world: at.world.clone(),
                course: *at.course,
                action: Action::EstimatePrompt,
                members: 0..0,
            }),
        };
        branch.driver.engine.clone_from(&self.behind);
        if at.course.keeps_durable {
            branch.driver.durable.clone_from(at.durable);
        }
        branch
    }
}

impl<E: LimitsEngine, W: World> Company<E, W> for Members<'_, E, W> {
    #[inline]
    fn advance<T: Witness>(
        &mut self,
        engine: &mut E,
        at: &Junction<'_, E::Config, E::Checkpoint, W>,
        _witness: &mut T,
    ) -> Action {
        let now = at.course.now;
        if self.together.len() == 1 {
            return engine.advance(at.config, now, at.event, &mut ());
        }
        let action = engine.advance(at.config, now, at.event, &mut self.watch);
        if self.watch.tells_apart() {
            self.part(at);
        }
        if self.together.len() > 1 {
            self.behind.advance(at.config, now, at.event, &mut ());
        }
        action
    }

    /// A restart may look at limits in ways of its own: whoever's engine comes out different leaves.
    fn resumed(&mut self, engine: &E, at: &Junction<'_, E::Config, E::Checkpoint, W>) {
        if self.together.len() == 1 {
            return;
        }
        for place in (self.together.start + 1..self.together.end).rev() {
            let config = self.plans[self.places[place]].config;
            let mut own = E::resume(config, at.durable.durable());
            if own.state() == engine.state() {
                continue;
            }
            // It becomes the last one and leaves from there.
            self.together.end -= 1;
            self.places[place..=self.together.end].rotate_left(1);
            let mut branch = self.branch(at);
            branch.action = own.advance(config, at.course.now, EngineEvent::Start, &mut ());
            branch.driver.engine = own;
            branch.members = self.together.end..self.together.end + 1;
            self.left.push(branch);
        }
        self.watch();
        self.behind.clone_from(engine);
    }
}

/// The caps that a finished run is held against.
fn bounds<C>(plan: &Plan<'_, C>) -> (Option<Money>, Option<Micros>) {
    (plan.facts.money_cap, plan.facts.time_limit)
}

/// The thresholds of all members, as far as they differ.
struct Table {
    /// From each member to the next, no threshold falls.
    ascends: bool,
    /// By threshold: its column, or [`Table::SAME`].
    columns: Vec<usize>,
    width: usize,
    /// Row by row, a member each.
    values: Vec<i128>,
}

impl Table {
    const SAME: usize = usize::MAX;

    fn new(members: &[Vec<i128>]) -> Table {
        let first = &members[0];
        let mut width = 0;
        let columns: Vec<usize> = (0..first.len())
            .map(|at| {
                if members.iter().all(|member| member[at] == first[at]) {
                    return Table::SAME;
                }
                width += 1;
                width - 1
            })
            .collect();
        let differing = |member: &Vec<i128>| {
            let own = member.iter().zip(&columns);
            let own = own.filter(|(_, column)| **column != Table::SAME);
            own.map(|(threshold, _)| *threshold).collect::<Vec<_>>()
        };
        let falls = |pair: &[Vec<i128>]| pair[0].iter().zip(&pair[1]).any(|(a, b)| a > b);
        Table {
            ascends: !members.windows(2).any(falls),
            width,
            values: members.iter().flat_map(differing).collect(),
            columns,
        }
    }

    #[inline]
    fn row(&self, member: usize) -> &[i128] {
        &self.values[member * self.width..(member + 1) * self.width]
    }
}

/// Listens for comparisons that do not come out the same for all members.
struct Watch {
    /// The columns of [`Table`].
    columns: Vec<usize>,
    /// By column: the smallest and the largest threshold of any member.
    ranges: Vec<(i128, i128)>,
    partings: RefCell<Vec<Parting>>,
}

/// A question that members answer differently.
#[derive(Clone, Copy)]
struct Parting {
    column: usize,
    /// Reached by so much use? Without: which value is it?
    used: Option<i128>,
}

impl Parting {
    #[inline]
    fn answered_alike(&self, a: &[i128], b: &[i128]) -> bool {
        let (a, b) = (a[self.column], b[self.column]);
        match self.used {
            Some(used) => (used >= a) == (used >= b),
            None => a == b,
        }
    }
}

impl Watch {
    fn new(table: &Table) -> Watch {
        Watch {
            columns: table.columns.clone(),
            ranges: Vec::new(),
            partings: RefCell::new(Vec::new()),
        }
    }

    /// Watches these members, of which there is at least one.
    fn over(&mut self, table: &Table, members: &[usize]) {
        self.partings.get_mut().clear();
        self.ranges.clear();
        let first = table.row(members[0]).iter();
        self.ranges.extend(first.map(|own| (*own, *own)));
        // Of members that ascend, the last has the largest thresholds.
        let others = if table.ascends {
            &members[members.len() - 1..]
        } else {
            &members[1..]
        };
        for member in others {
            for (range, own) in self.ranges.iter_mut().zip(table.row(*member)) {
                *range = (range.0.min(*own), range.1.max(*own));
            }
        }
    }

    #[inline]
    fn tells_apart(&mut self) -> bool {
        !self.partings.get_mut().is_empty()
    }

    /// Brings those who answer as the first of these members does to the front, without changing the
    /// order of either, and returns how many they are.
    fn sort(&mut self, table: &Table, members: &mut [usize], moved: &mut Vec<usize>) -> usize {
        let partings = self.partings.get_mut();
        let first = table.row(members[0]);
        let stays = |member: usize| {
            let own = table.row(member);
            partings
                .iter()
                .all(|parting| parting.answered_alike(first, own))
        };
        if table.ascends {
            return members.partition_point(|member| stays(*member));
        }
        moved.clear();
        let mut staying = 0;
        for at in 0..members.len() {
            let member = members[at];
            if stays(member) {
                members[staying] = member;
                staying += 1;
            } else {
                moved.push(member);
            }
        }
        members[staying..].copy_from_slice(moved);
        staying
    }

    #[cold]
    fn part(&self, column: usize, used: Option<i128>) {
        self.partings.borrow_mut().push(Parting { column, used });
    }
}

impl Observer for Watch {
    const ACTIVE: bool = false;

    fn decided(&mut self, _decision: Decision) {}

    #[inline]
    fn compared(&self, threshold: usize, used: i128) {
        let column = self.columns[threshold];
        if let Some((lowest, highest)) = self.ranges.get(column)
            && used >= *lowest
            && used < *highest
        {
            self.part(column, Some(used));
        }
    }

    #[inline]
    fn read(&self, threshold: usize) {
        let column = self.columns[threshold];
        if let Some((lowest, highest)) = self.ranges.get(column)
            && lowest != highest
        {
            self.part(column, None);
        }
    }
}
