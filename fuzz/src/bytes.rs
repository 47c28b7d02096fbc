//! Choices drawn from a fuzzer's bytes, in sequence.

/// Bytes that choices are drawn from; behind their end every choice is the first one.
#[derive(Clone, Debug)]
pub struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    pub fn new(bytes: &'b [u8]) -> Bytes<'b> {
        Bytes(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u8) -> u64 {
        u64::from(self.byte() % end)
    }

    pub fn flag(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// A value in two of three cases.
    pub fn maybe<T>(&mut self, value: impl FnOnce(&mut Bytes<'b>) -> T) -> Option<T> {
        if self.byte().is_multiple_of(3) {
            return None;
        }
        Some(value(self))
    }
}
