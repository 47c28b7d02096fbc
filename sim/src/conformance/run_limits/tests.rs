//! What happens after a crash behind the response of a tool turn, which the recorded snapshot of
//! the reference could not survive.
