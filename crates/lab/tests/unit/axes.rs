//! Axes over lists, files and ranges, and the names of points that last.

use catnip_lab::{Bundle, Outline, Scenario};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const SCENARIO: &str = r#"
id = "X-1"
title = "A file over a line"
[node]
server = { kind = "host" }
client = { kind = "host" }
[link.line]
from = "server"
to = "client"
rate = "1Mbit"
delay = "5ms"
queue = "drop-tail:10"
[traffic.file]
kind = "bulk"
from = "server"
to = "client"
bytes = "32KB"
"#;

/// Returns a folder with traces of the rate, in each of which a packet may leave every millisecond.
fn folder(names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "1\n2\n3\n").unwrap();
    }
    folder
}

fn read(folder: &Path, axes: &str) -> Result<Scenario, String> {
    Scenario::parse(&folder.join("x.toml"), &format!("{SCENARIO}{axes}")).map_err(|error| error.to_string())
}

fn names(scenario: &Scenario) -> Vec<&str> {
    scenario.variants().collect()
}

/// Returns the reason of an error, without the path of the file.
fn reason(folder: &Path, axes: &str) -> String {
    let error = read(folder, axes).expect_err(axes);
    error.split_once("x.toml: ").unwrap().1.to_string()
}

#[test]
fn a_step_of_an_axis_may_set_several_keys() {
    let axes = "[[axis]]\nkeys = ['link.line.rate', 'link.line.delay']\nvalues = [['1Mbit', '9ms'], ['2Mbit', '4ms']]\n";
    let scenario = read(Path::new(""), axes).unwrap();
    assert_eq!(names(&scenario), ["rate=1Mbit, delay=9ms", "rate=2Mbit, delay=4ms"]);
    let [(rate, rates), (delay, delays)] = &scenario.axes[..] else { panic!("{:?}", scenario.axes) };
    assert_eq!((&rate[..], &delay[..]), ("link.line.rate", "link.line.delay"));
    assert_eq!((rates[1].as_str(), delays[1].as_str()), (Some("2Mbit"), Some("4ms")));
}

#[test]
fn every_file_of_a_name_with_a_star_is_a_value_and_numbers_ascend() {
    let folder = folder(&["t/up-10.txt", "t/up-9.txt", "t/.up-1.txt", "t/down-9.txt", "t/up-8.csv"]);
    let axes = "[[axis]]\nkey = 'link.line.rate'\nfiles = 'trace:t/up-*.txt'\n";
    let scenario = read(folder.path(), axes).unwrap();
    assert_eq!(names(&scenario), ["rate=trace:t/up-9.txt", "rate=trace:t/up-10.txt"]);
    // Where the folder is not, the files of the bundle are what there is.
    let bundle = Bundle { path: "/nowhere/x.toml".into(), ..scenario.bundle().unwrap() };
    assert_eq!(names(&Scenario::of_bundle(&bundle).unwrap()), names(&scenario));
    fs::write(folder.path().join("x.toml"), format!("{SCENARIO}{axes}")).unwrap();
    assert_eq!(Outline::load(&folder.path().join("x.toml")).unwrap().variants, names(&scenario));
}

#[test]
fn a_star_may_stand_for_a_folder_and_files_of_several_keys_belong_together_by_it() {
    let both = ["a/up.txt", "a/down.txt", "b/up.txt", "b/down.txt"];
    let axes = "[[axis]]\nkeys = ['link.line.there.rate', 'link.line.back.rate']\nfiles = ['trace:*/down.txt', 'trace:*/up.txt']\n";
    let there = folder(&both);
    let scenario = read(there.path(), axes).unwrap();
    assert_eq!(names(&scenario)[1], "rate=trace:b/down.txt, rate=trace:b/up.txt");
    let lacks = folder(&both[..3]);
    let expected = "axis.files: \"trace:*/up.txt\": with \"b\" for * there is not a file for each key";
    assert_eq!(reason(lacks.path(), axes), expected);
}

#[test]
fn ranges_are_drawn_together_and_other_axes_cross_them() {
    let axes = "[sweep]\nsamples = 16\n\
        [[axis]]\nkey = 'link.line.delay'\nrange = '1ms..100ms'\nlog = true\n\
        [[axis]]\nkey = 'link.line.queue'\nvalues = ['drop-tail:5', 'drop-tail:9']\n\
        [[axis]]\nkey = 'tcp.initial_window_segments'\nrange = '1..4'\n";
    let scenario = read(Path::new(""), axes).unwrap();
    assert_eq!(scenario.variants().count(), 32);
    let of = |key: &str| &scenario.axes.iter().find(|(other, _)| other == key).unwrap().1;
    let mut delays_ms: Vec<f64> = of("link.line.delay")
        .iter()
        .step_by(2)
        .map(|value| value.as_str().unwrap().strip_suffix("ms").unwrap().parse().unwrap())
        .collect();
    delays_ms.sort_by(f64::total_cmp);
    // One value in each sixteenth of the logarithmic range.
    for (part, delay_ms) in delays_ms.iter().enumerate() {
        let at = catnip_base::math::ln(*delay_ms) / catnip_base::math::ln(100.0) * 16.0;
        assert!(
            (part as f64 - 1e-3..part as f64 + 1.001).contains(&at),
            "{delay_ms} ms is not in part {part}"
        );
    }
    let windows =
        of("tcp.initial_window_segments").iter().step_by(2).map(|value| value.as_integer().unwrap());
    let windows: Vec<i64> = windows.collect();
    for window in 1..=4 {
        assert_eq!(windows.iter().filter(|&&other| other == window).count(), 4, "each has the same share");
    }
    let again = read(Path::new(""), axes).unwrap();
    assert_eq!(names(&again), names(&scenario));
}

#[test]
fn a_key_that_is_set_replaces_its_axis_or_says_that_it_cannot() {
    let set = |axes: &str, key: &str| {
        let change = [(key.to_string(), "7ms".to_string())];
        Scenario::parse_set(Path::new("x.toml"), &format!("{SCENARIO}{axes}"), &change)
    };
    let range = "[sweep]\nsamples = 4\n[[axis]]\nkey = 'link.line.delay'\nrange = '1ms..100ms'\n";
    assert_eq!(names(&set(range, "link.line.delay").unwrap()), ["default"]);
    let both = "[[axis]]\nkeys = ['link.line.rate', 'link.line.delay']\nvalues = [['1Mbit', '9ms']]\n";
    let error = set(both, "link.line.delay").unwrap_err().to_string();
    assert_eq!(error, "x.toml: link.line.delay: an axis sets it together with other keys; change the axis");
}

#[test]
fn sobols_first_values_stay_when_more_are_drawn() {
    let axes = |samples: u32| {
        let sweep = format!("[sweep]\nsamples = {samples}\ndesign = 'sobol'\n");
        sweep + "[[axis]]\nkey = 'link.line.delay'\nrange = '1ms..100ms'\n"
    };
    let (few, many) = (read(Path::new(""), &axes(8)).unwrap(), read(Path::new(""), &axes(32)).unwrap());
    assert_eq!(names(&few)[..], names(&many)[..8]);
    assert_eq!(many.point_ids().unwrap()[..8], few.point_ids().unwrap());
}

#[test]
fn an_axis_that_makes_no_sense_is_one_line_with_its_key() {
    let folder = folder(&["t/a.txt"]);
    let line = "key = 'link.line.rate'\n";
    let cases = [
        (
            format!("[[axis]]\n{line}"),
            "axis.values: \"link.line.rate\": expected one of values, files and range",
        ),
        (
            format!("[[axis]]\n{line}values = ['1Mbit']\nfiles = 't/*'\n"),
            "axis.values: \"link.line.rate\": expected one of",
        ),
        ("[[axis]]\nvalues = [1]\n".into(), "axis.key: expected one of key and keys"),
        (
            "[[axis]]\nkeys = ['a']\nvalues = [[1]]\n".into(),
            "axis.keys: [\"a\"]: expected at least two; `key` is for one",
        ),
        (
            "[[axis]]\nkeys = ['link.line.rate', 'link.line.delay']\nvalues = [['1Mbit']]\n".into(),
            "axis.values: [\"1Mbit\"]: expected a list of 2 values, one for each key",
        ),
        (format!("[[axis]]\n{line}values = []\n"), "axis.values: \"link.line.rate\": no values"),
        (
            format!("[[axis]]\n{line}files = 'trace:t/*.csv'\n"),
            "axis.files: \"trace:t/*.csv\": no file has such a name",
        ),
        (
            format!("[[axis]]\n{line}files = 'trace:none/*.txt'\n"),
            "axis.files: \"trace:none/*.txt\": No such file",
        ),
        (
            format!("[[axis]]\n{line}files = 'trace:t/*/*.txt'\n"),
            "axis.files: \"trace:t/*/*.txt\": expected a text with the name of a file for each key, each with one *",
        ),
        (
            format!("[[axis]]\n{line}range = '1Mbit..2Mbit'\n"),
            "axis.range: needs the number of values, sweep.samples",
        ),
        (
            format!("[sweep]\nsamples = 2\n[[axis]]\n{line}range = '2Mbit..1Mbit'\n"),
            "axis.range: \"2Mbit..1Mbit\": expected LEAST..GREATEST in the same unit, such as 5ms..100ms",
        ),
        (
            format!("[sweep]\nsamples = 2\n[[axis]]\n{line}range = '1Mbit..2Gbit'\n"),
            "axis.range: \"1Mbit..2Gbit\": expected LEAST..GREATEST in the same unit",
        ),
        (
            format!("[sweep]\nsamples = 2\n[[axis]]\n{line}range = '0..2'\nlog = true\n"),
            "axis.range: \"0..2\": a logarithmic range begins above 0",
        ),
        (format!("[[axis]]\n{line}values = ['1Mbit']\nlog = true\n"), "axis.log: true: needs a range"),
        ("[sweep]\nsamples = 2\n".into(), "sweep.samples: no axis has a range"),
        ("[sweep]\nsamples = 0\n".into(), "sweep.samples: 0: at least one value is needed"),
        ("[sweep]\nseeds = '9..5'\n".into(), "sweep.seeds: \"9..5\": expected numbers of seeds FIRST..LAST"),
        ("[sweep]\ndesign = 'random'\n".into(), "sweep.design: "),
        ("[sweep]\nsample = 2\n".into(), "sweep.sample: unknown field `sample`, expected one of"),
    ];
    for (axes, expected) in cases {
        let reason = reason(folder.path(), &axes);
        assert!(reason.starts_with(expected) && !reason.contains('\n'), "{axes}{reason}");
    }
}

#[test]
fn a_point_keeps_its_name_among_others_and_under_another_title_and_has_another_with_other_contents() {
    let folder = folder(&["t/a.txt", "t/b.txt"]);
    let axes = "[[axis]]\nkey = 'link.line.rate'\nfiles = 'trace:t/*.txt'\n";
    let before = read(folder.path(), axes).unwrap().point_ids().unwrap();
    assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 2);
    fs::write(folder.path().join("t/0.txt"), "5\n").unwrap();
    let text = format!("{SCENARIO}{axes}").replace("A file over", "Another title of");
    let more = Scenario::parse(&folder.path().join("x.toml"), &text).unwrap().point_ids().unwrap();
    assert_eq!(more[1..], before);
    fs::write(folder.path().join("t/b.txt"), "7\n").unwrap();
    let changed = read(folder.path(), axes).unwrap().point_ids().unwrap();
    assert_eq!((&changed[1], changed[2] == before[1]), (&before[0], false));
    let set = [("link.line.delay".to_string(), "6ms".to_string())];
    let set = Scenario::parse_set(&folder.path().join("x.toml"), &text, &set).unwrap().point_ids().unwrap();
    assert!(set.iter().all(|id| !more.contains(id) && id.len() == 64));
}
