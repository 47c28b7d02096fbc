//! Columns of text that fit a width.

const INDENT: &str = "  ";
const GAP: usize = 2;
/// Longer first cells get a line of their own.
const LONGEST_FIRST: usize = 24;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// A column with its heading.
#[derive(Clone)]
pub(super) struct Column {
    /// The two lines of the heading.
    heading: [&'static str; 2],
    align: Align,
    /// 0: always shown; else, the higher the sooner it is dropped where room is short.
    drop: u8,
}

impl Column {
    pub(super) fn left(heading: [&'static str; 2], drop: u8) -> Column {
        Column {
            heading,
            align: Align::Left,
            drop,
        }
    }

    pub(super) fn right(heading: [&'static str; 2], drop: u8) -> Column {
        Column {
            heading,
            align: Align::Right,
            drop,
        }
    }
}

/// Rows under columns.
pub(super) struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub(super) fn new(columns: Vec<Column>) -> Grid {
        Grid {
            columns,
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The text of the grid; columns are dropped until it fits, and then the first column and the
    /// last one get lines of their own. `paint` may add colour to a finished line.
    pub(super) fn render(&self, width: usize, paint: impl Fn(&str) -> String) -> String {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        while self.total(&shown) > width {
            let droppable = shown
                .iter()
                .copied()
                .filter(|at| self.columns[*at].drop > 0)
                .max_by_key(|at| self.columns[*at].drop);
            match droppable {
                Some(column) => shown.retain(|at| *at != column),
                None => break,
            }
        }
        if self.total(&shown) > width {
            return self.stacked(width, paint);
        }
        let mut text = String::new();
        for part in 0..2 {
            let heading = self.line(&self.headings(part), &shown);
            if !heading.trim().is_empty() {
                text.push_str(&heading);
            }
        }
        for row in &self.rows {
            if self.overflows(row) {
                text.push_str(&format!("{INDENT}{}\n", row[0]));
                let mut rest = row.clone();
                rest[0].clear();
                text.push_str(&paint(&self.line(&rest, &shown)));
            } else {
                text.push_str(&paint(&self.line(row, &shown)));
            }
        }
        text
    }

    /// One line a value, for very narrow terminals.
    fn stacked(&self, width: usize, paint: impl Fn(&str) -> String) -> String {
        let mut text = String::new();
        for row in &self.rows {
            text.push_str(&wrap(&row[0], width, INDENT));
            for (column, cell) in self.columns.iter().zip(row).skip(1) {
                if !cell.is_empty() {
                    let line = wrap(
                        &format!("{}: {cell} ", column.heading.join(" ").trim()),
                        width,
                        "    ",
                    );
                    text.push_str(&paint(&line));
                }
            }
        }
        text
    }

    fn headings(&self, part: usize) -> Vec<String> {
        let part = |column: &Column| column.heading[part].to_owned();
        self.columns.iter().map(part).collect()
    }

    fn overflows(&self, row: &[String]) -> bool {
        width(&row[0]) > LONGEST_FIRST
    }

    fn column_width(&self, at: usize) -> usize {
        let cells = self
            .rows
            .iter()
            .filter(|row| at > 0 || !self.overflows(row))
            .map(|row| width(&row[at]));
        cells.max().unwrap_or(0).max(
            self.columns[at]
                .heading
                .map(width)
                .into_iter()
                .max()
                .unwrap_or(0),
        )
    }

    fn total(&self, shown: &[usize]) -> usize {
        let columns: usize = shown.iter().map(|at| self.column_width(*at) + GAP).sum();
        let longest_first = self.rows.iter().map(|row| width(&row[0]) + GAP).max();
        columns.max(longest_first.unwrap_or(0))
    }

    fn line(&self, cells: &[String], shown: &[usize]) -> String {
        let mut line = String::new();
        for at in shown {
            let room = self.column_width(*at) - width(&cells[*at]);
            let padding = " ".repeat(room);
            line.push_str(INDENT);
            match self.columns[*at].align {
                Align::Left => line.extend([cells[*at].as_str(), &padding]),
                Align::Right => line.extend([padding.as_str(), &cells[*at]]),
            }
        }
        format!("{}\n", line.trim_end())
    }
}

/// Characters of a text; wide ones count as one.
pub(super) fn width(text: &str) -> usize {
    text.chars().count()
}

/// Breaks a text at spaces; each line starts with `indent`. Words longer than a line are split.
pub(super) fn wrap(text: &str, width: usize, indent: &str) -> String {
    let room = width.saturating_sub(indent.len()).max(1);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        for piece in pieces(word, room) {
            let line = lines.last_mut().map_or(0, |line| self::width(line));
            let needed = line + usize::from(line > 0) + self::width(&piece);
            if line > 0 && needed > room {
                lines.push(String::new());
            }
            if let Some(line) = lines.last_mut() {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(&piece);
            }
        }
    }
    lines
        .iter()
        .map(|line| format!("{indent}{line}\n"))
        .collect()
}

fn pieces(word: &str, room: usize) -> Vec<String> {
    let characters: Vec<char> = word.chars().collect();
    characters
        .chunks(room)
        .map(|chunk| chunk.iter().collect())
        .collect()
}
