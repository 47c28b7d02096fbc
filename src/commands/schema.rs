//! `holdback schema`: JSON Schemas of file kinds.

use crate::cli::{Schema, SchemaKind};
use crate::failure::{Failure, Verdict, print};

pub(super) fn run(args: &Schema) -> Result<Verdict, Failure> {
    let schema = match args.kind {
        SchemaKind::Summary => holdback_reports::summary::JSON_SCHEMA,
    };
    print(schema)?;
    Ok(Verdict::Holds)
}
