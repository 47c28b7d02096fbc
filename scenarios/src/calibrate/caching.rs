//! What requests read from the provider's cache.
//!
//! Three things are told apart. A request may read the input of the one before it (a hit). A run's first
//! request, and one that misses, may still read the start that all runs share, instructions and tools,
//! because other runs keep it there. And some providers read nothing for requests beyond a size.

use super::sample::Sample;

/// Sums over the requests of a run after its first, or of all runs so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reads {
    requests: u64,
    cached: u128,
    /// Input of the request before each.
    cacheable: u128,
    /// Requests that read at least a tenth of that, with that.
    reading: u64,
    reading_cacheable: u128,
    /// What was read, and could have been, by requests that read more than the run began with.
    own_cached: u128,
    own_cacheable: u128,
}

impl Reads {
    /// Each sum combined with another's.
    pub(super) fn with(
        &self,
        other: &Reads,
        wide: fn(u128, u128) -> u128,
        narrow: fn(u64, u64) -> u64,
    ) -> Reads {
        Reads {
            requests: narrow(self.requests, other.requests),
            cached: wide(self.cached, other.cached),
            cacheable: wide(self.cacheable, other.cacheable),
            reading: narrow(self.reading, other.reading),
            reading_cacheable: wide(self.reading_cacheable, other.reading_cacheable),
            own_cached: wide(self.own_cached, other.own_cached),
            own_cacheable: wide(self.own_cacheable, other.own_cacheable),
        }
    }

    /// Tokens read.
    pub(super) fn cached(&self) -> u128 {
        self.cached
    }
}

/// What was seen of the cache of a source.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheSeen {
    reads: Reads,
    firsts: u64,
    firsts_reading: u64,
    firsts_cached: u128,
    /// Sizes of the requests that read something from the cache, and of those that did not.
    read_sizes: Sample,
    unread_sizes: Sample,
}

impl CacheSeen {
    pub(super) fn reads(&self) -> Reads {
        self.reads
    }

    /// Adds a run's first request. Providers leave a cached count of 0 out, and costs bear that out.
    pub(super) fn add_first(&mut self, input: u64, cached: Option<u64>) {
        let cached = cached.unwrap_or(0).min(input);
        self.firsts += 1;
        self.firsts_reading += u64::from(cached > 0);
        self.firsts_cached += u128::from(cached);
        self.add_size(input, cached);
    }

    /// Adds a later request: `before` is the input of the one before it, `first` that of the first.
    pub(super) fn add_later(&mut self, input: u64, cached: Option<u64>, before: u64, first: u64) {
        let reads = &mut self.reads;
        let cached = cached.unwrap_or(0).min(before);
        reads.requests += 1;
        reads.cached += u128::from(cached);
        reads.cacheable += u128::from(before);
        if 10 * u128::from(cached) >= u128::from(before) {
            reads.reading += 1;
            reads.reading_cacheable += u128::from(before);
        }
        if cached > first {
            reads.own_cached += u128::from(cached);
            reads.own_cacheable += u128::from(before);
        }
        self.add_size(input, cached);
    }

    fn add_size(&mut self, input: u64, cached: u64) {
        if cached > 0 {
            self.read_sizes.add(input);
        } else {
            self.unread_sizes.add(input);
        }
    }

    /// How the source caches; `None` where nothing was read.
    pub(super) fn caching(&self) -> Option<Caching> {
        if self.reads.cached == 0 {
            return None;
        }
        // A start that few first requests read is luck of theirs, nothing that stays in the cache.
        let is_shared = 2 * self.firsts_reading >= self.firsts.max(1);
        let prefix = if is_shared {
            (self.firsts_cached as f64 / self.firsts as f64).round() as u64
        } else {
            0
        };
        let (read, of) = match (prefix, self.reads.own_cacheable) {
            (0, _) | (_, 0) => (self.reads.cached, self.reads.reading_cacheable),
            (_, own) => (self.reads.own_cached, own),
        };
        Some(Caching {
            prefix,
            up_to: self.up_to(),
            hit_share: (read as f64 / of.max(1) as f64).min(1.0),
        })
    }

    /// The size that best parts the requests that read something from those that did not, if it parts
    /// nine tenths of either side and enough requests are larger to tell.
    fn up_to(&self) -> Option<u64> {
        const FEWEST: u64 = 20;
        let (mut read, mut unread) = (0, 0);
        let (all_read, all_unread) = (self.read_sizes.len(), self.unread_sizes.len());
        let mut best = (0, 0, 0, 0);
        let mut larger = self.unread_sizes.counts().peekable();
        for (size, count) in self.read_sizes.counts() {
            while let Some((_, count)) = larger.next_if(|(other, _)| *other <= size) {
                unread += count;
            }
            read += count;
            let right = read + (all_unread - unread);
            if right > best.0 {
                best = (right, size, read, unread);
            }
        }
        let (_, size, read, unread) = best;
        let (above_unread, above) = (all_unread - unread, all_unread - unread + all_read - read);
        let parts = 10 * read >= 9 * (read + unread) && 10 * above_unread >= 9 * above;
        let tells = above >= FEWEST && 20 * above >= all_read + all_unread;
        (parts && tells).then_some(size)
    }
}

/// How a source caches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Caching {
    /// Tokens that first requests, and later ones that miss, read on average.
    pub(super) prefix: u64,
    /// Larger requests read nothing.
    pub(super) up_to: Option<u64>,
    /// Of the earlier request's input, what one that reads from the cache reads there.
    pub(super) hit_share: f64,
}

impl Caching {
    /// The chance of a hit at which requests like these read as much as these did; `None` if none could.
    pub(super) fn hit(&self, reads: &Reads) -> Option<f64> {
        // Beyond the bound nothing is read whatever the chance says, so it is that of the others.
        let (requests, cacheable) = match self.up_to {
            Some(_) => (reads.reading, reads.reading_cacheable),
            None => (reads.requests, reads.cacheable),
        };
        if cacheable == 0 {
            return None;
        }
        let of_misses = requests as f64 * self.prefix as f64;
        let of_hits = self.hit_share * cacheable as f64;
        let hit = (reads.cached as f64 - of_misses) / (of_hits - of_misses);
        Some(if of_hits > of_misses {
            hit.clamp(0.0, 1.0)
        } else {
            0.0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of twenty requests that begin at 1,000 tokens and grow by 100 each.
    fn seen(runs: u64, read: impl Fn(u64, u64) -> u64) -> CacheSeen {
        let mut seen = CacheSeen::default();
        for run in 0..runs {
            seen.add_first(1000, Some(read(run, 0)));
            for at in 1..20 {
                let input = 1000 + 100 * at;
                seen.add_later(input, Some(read(run, at)), input - 100, 1000);
            }
        }
        seen
    }

    #[test]
    fn hits_and_the_shared_start_are_told_apart_and_read_as_much_as_was_recorded() {
        // Every other request reads all of the one before, the others the first 800 tokens.
        let read = |run: u64, at: u64| match (run + at) % 2 {
            0 if at > 0 => 900 + 100 * at,
            _ => 800,
        };
        let caching = seen(40, read).caching().unwrap();
        assert_eq!((caching.prefix, caching.up_to), (800, None));
        assert_eq!(caching.hit_share, 1.0);
        let hit = caching.hit(&seen(40, read).reads()).unwrap();
        assert!((hit - 0.5).abs() < 0.01, "{hit}");
    }

    #[test]
    fn a_first_request_that_rarely_reads_has_no_shared_start() {
        let read = |run: u64, at: u64| if at > 0 || run == 0 { 500 } else { 0 };
        assert_eq!(seen(40, read).caching().unwrap().prefix, 0);
        assert_eq!(seen(40, |_, _| 0).caching(), None);
    }

    #[test]
    fn a_size_beyond_which_nothing_is_read_is_found() {
        let read = |_: u64, at: u64| if at < 10 { 800 } else { 0 };
        let caching = seen(40, read).caching().unwrap();
        assert_eq!(caching.up_to, Some(1900));
        assert_eq!(caching.hit(&seen(40, read).reads()), Some(0.0));
        let by_luck = |run: u64, at: u64| if (run + at).is_multiple_of(3) { 0 } else { 800 };
        assert_eq!(seen(40, by_luck).caching().unwrap().up_to, None);
    }
}
