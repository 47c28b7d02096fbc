//! The inputs that the fuzzers kept, through the same functions: none of them may bring a defect to
//! light again.

use std::path::Path;

#[path = "../fuzz/src/lib.rs"]
mod targets;

#[test]
fn no_kept_input_of_any_target_breaks_anything() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, _) in targets::TARGETS {
        let folder = corpus.join(name);
        let mut files: Vec<_> = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("the folder can be read").path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{} is empty", folder.display());
        for file in files {
            // A panic below is preceded by this line.
            println!("{}", file.display());
            let bytes = std::fs::read(&file).expect("the file can be read");
            targets::feed(name, &bytes);
        }
    }
}
