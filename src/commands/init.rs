//! `holdback init`: files to start from.

use std::fs;

use crate::cli::Init;
use crate::failure::{Failure, Verdict, print};
use crate::output::{make_folder, write_atomically};

/// The files, which run as they are.
const FILES: [(&str, &str); 3] = [
    ("study.toml", include_str!("init/study.toml")),
    ("scenario.toml", include_str!("init/scenario.toml")),
    ("policy.toml", include_str!("init/policy.toml")),
];

pub(super) fn run(args: &Init) -> Result<Verdict, Failure> {
    for (name, _) in FILES {
        let path = args.folder.join(name);
        if fs::symlink_metadata(&path).is_ok() {
            return Err(Failure::Usage(format!(
                "{}: found a file already, expected none: nothing was written",
                path.display()
            )));
        }
    }
    make_folder(&args.folder)?;
    let mut text = String::new();
    for (name, content) in FILES {
        let path = args.folder.join(name);
        write_atomically(&path, content.as_bytes())?;
        text += &format!("wrote {}\n", path.display());
    }
    let study = args.folder.join("study.toml").display().to_string();
    let shell = holdback_reports::numbers::shell;
    text += &format!("next: holdback compare {}\n", shell(&study));
    print(&text)?;
    Ok(Verdict::Holds)
}
