//! Texts in, values or problems out.

use super::*;

fn texts(values: &[&str]) -> Result<Vec<String>, String> {
    let mut list = None;
    Slot::Texts(&mut list).read_flag(values).map_err(|problem| problem.to_string())?;
    Ok(list.unwrap_or_default())
}

#[test]
fn lists_are_split_as_csv_and_gather() {
    assert_eq!(texts(&["a,b", "c"]).unwrap(), ["a", "b", "c"]);
    assert_eq!(texts(&[""]).unwrap(), [""; 0]);
    assert_eq!(texts(&["a,"]).unwrap(), ["a", ""]);
    assert_eq!(texts(&["\"a,b\",\"c\"\"d\""]).unwrap(), ["a,b", "c\"d"]);
    for wrong in ["a,\"b", "a\"b", "\"a\"b"] {
        assert!(texts(&[wrong]).unwrap_err().contains("list with commas"), "{wrong}");
    }
}

#[test]
fn gates_and_modules_gather() {
    let mut gates = BTreeMap::new();
    Slot::Gates(&mut gates).read_flag(&["A=true, B=f", "A=false,"]).unwrap();
    assert_eq!(gates, BTreeMap::from([("A".to_owned(), false), ("B".to_owned(), false)]));
    let problem = Slot::Gates(&mut gates).read_flag(&["A"]).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "invalid value \"A\": must be name=true or name=false, with commas between"
    );
    assert!(Slot::Gates(&mut gates).read_flag(&["A=maybe"]).is_err());
    let mut modules = Vec::new();
    Slot::Modules(&mut modules).read_flag(&["a=1,b=2", "c=3"]).unwrap();
    let got: Vec<_> = modules.iter().map(|m| (m.file_pattern.as_str(), m.verbosity)).collect();
    assert_eq!(got, [("a", 1), ("b", 2), ("c", 3)]);
    for wrong in ["a", "a=", "=1", "a=-1", "a=b", "a=2147483648"] {
        assert!(Slot::Modules(&mut modules).read_flag(&[wrong]).is_err(), "{wrong}");
    }
}

#[test]
fn the_last_scalar_wins_and_every_one_is_looked_at() {
    let mut number = 0;
    Slot::Number(&mut number).read_flag(&["1", "0x10"]).unwrap();
    assert_eq!(number, 16);
    let problem = Slot::Number(&mut number).read_flag(&["x", "2"]).unwrap_err();
    assert_eq!(problem.value, "\"x\"");
}
