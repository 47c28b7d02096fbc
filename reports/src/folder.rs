//! The files of a report folder.

use crate::manifest::Manifest;
use crate::summary::Summary;
use crate::{csv, html, markdown, plots};

/// A file of a report folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path in the folder, with forward slashes.
    pub path: String,
    /// Its content.
    pub content: String,
}

/// Everything but the manifest and `runs.csv`, in the order in which it is best written: data before
/// pages.
pub fn files(summary: &Summary) -> Result<Vec<File>, serde_json::Error> {
    let file = |path: &str, content: String| File {
        path: path.to_owned(),
        content,
    };
    let mut files = vec![
        file("summary.csv", csv::render(summary)),
        file("summary.json", summary.to_json()?),
        file("report.md", markdown::render(summary)),
        file("report.html", html::render(summary)),
    ];
    for scenario in &summary.scenarios {
        for plot in plots::of_scenario(summary, scenario) {
            files.push(file(&format!("plots/{}.svg", plot.id), plot.file()));
        }
    }
    Ok(files)
}

/// The manifest of those files.
pub fn manifest(summary: &Summary, files: &[File]) -> Manifest {
    let mut manifest = Manifest::new(summary);
    for file in files {
        manifest.add(&file.path, file.content.as_bytes());
    }
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_same_study_gives_the_same_bytes() {
        let [first, second] = [0, 1].map(|_| {
            let summary = Summary::new(&sample::study());
            let files = files(&summary).unwrap();
            manifest(&summary, &files).to_json().unwrap()
        });
        assert_eq!(first, second);
    }

    #[test]
    fn paths_are_plain_and_unique() {
        let summary = Summary::new(&sample::sized(2, 9, 400));
        let files = files(&summary).unwrap();
        let mut paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-./".contains(c);
        assert!(
            paths.iter().all(|path| path.chars().all(plain)),
            "{paths:?}"
        );
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), files.len());
    }
}
