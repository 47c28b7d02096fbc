//! `holdback schema`: JSON Schemas of file kinds.

use holdback_scenarios::schema::{Kind, text};

use crate::cli::{Schema, SchemaKind};
use crate::failure::{Failure, Verdict, print};
use crate::{parts, sizing};

pub(super) fn run(args: &Schema) -> Result<Verdict, Failure> {
    let schema = match args.kind {
        SchemaKind::Scenario => text(Kind::Scenario),
        SchemaKind::Policy => text(Kind::Policy),
        SchemaKind::Study => text(Kind::Study),
        SchemaKind::Prices => text(Kind::Prices),
        SchemaKind::Traces => text(Kind::Traces),
        SchemaKind::Summary => holdback_reports::summary::JSON_SCHEMA.to_owned(),
        SchemaKind::Manifest => holdback_reports::manifest::JSON_SCHEMA.to_owned(),
        SchemaKind::Size => sizing::report::JSON_SCHEMA.to_owned(),
        SchemaKind::Explanation => holdback_reports::explain::JSON_SCHEMA.to_owned(),
        SchemaKind::Parts => parts::JSON_SCHEMA.to_owned(),
    };
    print(&schema)?;
    Ok(Verdict::Holds)
}
