//! Fast inverse-CDF sampling: one word of luck in, one value out.
//!
//! A quantity's inverse CDF is tabulated once in cells that get finer towards both tails: the word is
//! folded to its distance from the nearer end, and each power of two of that distance has
//! [`CELLS_PER_OCTAVE`] cells, so a cell's width is at most 1/64 of its tail probability. Within a
//! cell the value is interpolated linearly, but only where that agrees with the exact inverse CDF at
//! the cell's middle to a relative [`TOLERANCE`]; any other cell, and the last 2^-26 of each tail, is
//! evaluated exactly every time. Tables are built with functions of `libm` and read with plain IEEE-754
//! operations, so the same word gives the same value on every machine.

use holdback_scenarios::Quantity;

use crate::luck::uniform;

/// Largest relative error of an interpolated value, checked at each cell's middle when it is built.
///
/// Tokens and microseconds are rounded to whole numbers afterwards, which is coarser.
pub const TOLERANCE: f64 = 1e-4;
const CELLS_PER_OCTAVE: u32 = 64;
/// Octaves of the folded word: distances 2^6 .. 2^31.
const OCTAVES: u32 = 25;
const CELLS: usize = (CELLS_PER_OCTAVE * OCTAVES) as usize;

/// A compiled quantity.
#[derive(Clone, Debug)]
pub struct Sampler(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Fixed(f64),
    Drawn(Table),
}

#[derive(Clone, Debug)]
struct Table {
    /// Cells of the lower half of the uniform, then of the upper half.
    cells: Box<[Cell]>,
    exact: Box<Exact>,
}

/// What is asked where no cell answers.
#[derive(Clone, Debug)]
struct Exact {
    quantity: Quantity,
    scale: f64,
}

/// `base + slope * offset`, or exact evaluation where the slope is NaN.
#[derive(Clone, Copy, Debug)]
struct Cell {
    base: f64,
    slope: f64,
}

impl Sampler {
    /// Compiles a quantity; its values are multiplied by `scale`.
    pub fn new(quantity: &Quantity, scale: f64) -> Sampler {
        if let Some(value) = quantity.fixed() {
            return Sampler(Kind::Fixed(value * scale));
        }
        Sampler(Kind::Drawn(Table::new(quantity.clone(), scale)))
    }

    /// The value for a word.
    #[inline]
    pub fn value(&self, word: u32) -> f64 {
        match &self.0 {
            Kind::Fixed(value) => *value,
            Kind::Drawn(table) => table.value(word),
        }
    }

    /// The value for a word as a count: rounded half up, nothing below zero.
    #[inline]
    pub fn count(&self, word: u32) -> u64 {
        (self.value(word) + 0.5) as u64
    }

    /// The one value of a fixed quantity.
    pub fn fixed(&self) -> Option<f64> {
        match &self.0 {
            Kind::Fixed(value) => Some(*value),
            Kind::Drawn(_) => None,
        }
    }
}

impl Table {
    fn new(quantity: Quantity, scale: f64) -> Table {
        let exact = Exact { quantity, scale };
        let folds: [fn(u32) -> u32; 2] = [|word| word, |word| !word];
        let half = |fold: fn(u32) -> u32| {
            let exact = &exact;
            (0..CELLS as u32).map(move |cell| {
                let shift = cell / CELLS_PER_OCTAVE;
                let first = (CELLS_PER_OCTAVE + cell % CELLS_PER_OCTAVE) << shift;
                let last = first + ((1_u32 << shift) - 1);
                Cell::new(exact, fold, first, last)
            })
        };
        Table {
            cells: folds.into_iter().flat_map(half).collect(),
            exact: Box::new(exact),
        }
    }

    #[inline]
    fn value(&self, word: u32) -> f64 {
        let upper = word >> 31;
        let distance = if upper == 1 { !word } else { word };
        if distance >= CELLS_PER_OCTAVE {
            let shift = 25 - distance.leading_zeros();
            let within = distance >> shift;
            let in_half = shift * CELLS_PER_OCTAVE + within - CELLS_PER_OCTAVE;
            let cell = self.cells[(upper * CELLS as u32 + in_half) as usize];
            if !cell.slope.is_nan() {
                return cell.base + cell.slope * f64::from(distance - (within << shift));
            }
        }
        self.exact.value(word)
    }
}

impl Exact {
    fn value(&self, word: u32) -> f64 {
        self.quantity.quantile(uniform(word)) * self.scale
    }
}

impl Cell {
    fn new(exact: &Exact, fold: fn(u32) -> u32, first: u32, last: u32) -> Cell {
        let exact = |word| exact.value(fold(word));
        let base = exact(first);
        let span = last - first;
        if span == 0 {
            return Cell { base, slope: 0.0 };
        }
        let end = exact(last);
        let slope = (end - base) / f64::from(span);
        // Three inner points, so that a step of a discrete distribution cannot hide at one of them.
        let agrees = [1, 2, 3].into_iter().all(|quarter| {
            let offset = (u64::from(span) * quarter / 4) as u32;
            let value = exact(first + offset);
            let guess = base + slope * f64::from(offset);
            (guess - value).abs() <= TOLERANCE * value.abs()
        });
        Cell {
            base,
            slope: if agrees { slope } else { f64::NAN },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdback_scenarios::Dist;
    use holdback_scenarios::dist::Shape;

    fn quantities() -> Vec<Quantity> {
        [
            Shape::Lognormal {
                median: 1800.0,
                p95: 9000.0,
            },
            Shape::Exponential { mean: 3.0 },
            Shape::Pareto {
                min: 3.0,
                alpha: 1.5,
            },
            Shape::Uniform {
                low: 2.0,
                high: 9.0,
            },
            Shape::Geometric { mean: 18.0 },
            Shape::Poisson { mean: 4.5 },
        ]
        .into_iter()
        .flat_map(|shape| {
            [
                Dist::new(shape.clone(), None, None),
                Dist::new(shape, Some(4.0), Some(40.0)),
            ]
        })
        .map(|dist| Quantity::Drawn(dist.unwrap()))
        .collect()
    }

    #[test]
    fn a_tabulated_value_agrees_with_the_exact_inverse_cdf_for_any_word() {
        for quantity in quantities() {
            let sampler = Sampler::new(&quantity, 1.0);
            let mut word = 1_u32;
            for step in 0..20_000_u32 {
                word = word.wrapping_mul(2_891_336_453).wrapping_add(step | 1);
                // Uniform words and words close to either end.
                for word in [word, word >> (step % 31), !(word >> (step % 31))] {
                    let exact = quantity.quantile(uniform(word));
                    let value = sampler.value(word);
                    assert!(
                        (value - exact).abs() <= 2.0 * TOLERANCE * exact.abs(),
                        "{quantity:?} {word}: {value} {exact}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_fixed_quantity_needs_no_luck() {
        let sampler = Sampler::new(&Quantity::Fixed(2.5), 1e6);
        assert_eq!(sampler.fixed(), Some(2.5e6));
        assert_eq!(Sampler::new(&Quantity::Fixed(2.5), 1.0).count(99), 3);
    }
}
