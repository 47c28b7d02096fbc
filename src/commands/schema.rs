//! `holdback schema`: JSON Schemas of file kinds.

use holdback_scenarios::schema::{Kind, text};

use crate::cli::{Schema, SchemaKind};
use crate::failure::{Failure, Verdict, print};

pub(super) fn run(args: &Schema) -> Result<Verdict, Failure> {
    let schema = match args.kind {
        SchemaKind::Scenario => text(Kind::Scenario),
        SchemaKind::Policy => text(Kind::Policy),
        SchemaKind::Study => text(Kind::Study),
        SchemaKind::Prices => text(Kind::Prices),
        SchemaKind::Traces => text(Kind::Traces),
        SchemaKind::Summary => holdback_reports::summary::JSON_SCHEMA.to_owned(),
        SchemaKind::Manifest => holdback_reports::manifest::JSON_SCHEMA.to_owned(),
    };
    print(&schema)?;
    Ok(Verdict::Holds)
}
