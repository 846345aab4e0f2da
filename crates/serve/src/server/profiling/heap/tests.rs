//! A heap profile, read back field by field as `profile.proto` has them.

use std::io::Read;

use super::*;

/// A field of a message: its number, and its number or bytes.
type Field = (u64, u64, Vec<u8>);

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

fn fields(mut bytes: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = varint(&mut bytes);
        let mut text = Vec::new();
        if key & 7 == 2 {
            let (head, rest) = bytes.split_at(usize::try_from(value).unwrap());
            (text, bytes) = (head.to_vec(), rest);
        }
        fields.push((key >> 3, value, text));
    }
    fields
}

fn numbers(mut bytes: &[u8]) -> Vec<u64> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        numbers.push(varint(&mut bytes));
    }
    numbers
}

fn number(fields: &[Field], field: u64) -> u64 {
    fields.iter().find(|(number, ..)| *number == field).map_or(0, |(_, value, _)| *value)
}

fn of(fields: &[Field], field: u64) -> Vec<Vec<u8>> {
    fields.iter().filter(|(number, ..)| *number == field).map(|(.., bytes)| bytes.clone()).collect()
}

/// Every sample as text: its functions from the inside out, and its values.
fn read(profile: &[u8]) -> (Vec<String>, Vec<Field>) {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(profile).read_to_end(&mut bytes).unwrap();
    let profile = fields(&bytes);
    let texts: Vec<String> =
        of(&profile, 6).into_iter().map(|text| String::from_utf8(text).unwrap()).collect();
    assert_eq!(texts[0], "");
    let text = |at: u64| texts[usize::try_from(at).unwrap()].as_str();
    let messages = |field| of(&profile, field).iter().map(|bytes| fields(bytes)).collect::<Vec<_>>();
    let (locations, functions) = (messages(4), messages(5));
    let frame = |id: u64| {
        let location = locations.iter().find(|location| number(location, 1) == id).unwrap();
        let lines = of(location, 4)
            .iter()
            .map(|line| {
                let line = fields(line);
                let function =
                    functions.iter().find(|function| number(function, 1) == number(&line, 1)).unwrap();
                format!("{}@{}:{}", text(number(function, 2)), text(number(function, 4)), number(&line, 2))
            })
            .collect::<Vec<_>>();
        if lines.is_empty() { format!("{:#x}", number(location, 3)) } else { lines.join("<") }
    };
    let samples = messages(2).into_iter().map(|sample| {
        let stack: Vec<String> = numbers(&of(&sample, 1)[0]).into_iter().map(frame).collect();
        format!("{} {:?}", stack.join(" "), numbers(&of(&sample, 2)[0]))
    });
    let kinds =
        messages(1).into_iter().map(|kind| format!("{}/{}", text(number(&kind, 1)), text(number(&kind, 2))));
    let rest = [format!("shown: {}", text(number(&profile, 14)))];
    (kinds.chain(samples).chain(rest).collect(), profile)
}

fn heap() -> Heap {
    let function = |name: &str, line| Function { name: name.into(), file: "a.rs".into(), line };
    let amount = |objects, bytes| Amount { objects, bytes };
    Heap {
        stacks: vec![
            Stack { addresses: vec![0x20, 0x30], allocated: amount(9, 900), in_use: amount(1, 100) },
            Stack { addresses: vec![0x40, 0x30], allocated: amount(1, u64::MAX), in_use: amount(0, 0) },
            Stack::default(),
        ],
        functions: BTreeMap::from([
            (0x20, vec![function("inner<T>", 7), function("outer", 8)]),
            (0x30, vec![function("main", 3)]),
        ]),
        interval: 512,
        lost: 0,
    }
}

#[test]
fn stacks_names_and_amounts_are_all_there() {
    let (text, profile) = read(&profile(&heap(), View::InUse, UNIX_EPOCH));
    assert_eq!(
        text,
        [
            "alloc_objects/count",
            "alloc_space/bytes",
            "inuse_objects/count",
            "inuse_space/bytes",
            "inner<T>@a.rs:7<outer@a.rs:8 main@a.rs:3 [9, 900, 1, 100]",
            // No name is known, so there is the address of the call.
            "0x3f main@a.rs:3 [1, 18446744073709551615, 0, 0]",
            " [0, 0, 0, 0]",
            "shown: inuse_space",
        ]
    );
    assert_eq!(number(&profile, 12), 512);
    assert!(!of(&profile, 3).is_empty(), "the binary's mapping is there");
}

#[test]
fn allocs_shows_what_was_allocated() {
    let (text, _) = read(&profile(&heap(), View::Allocated, UNIX_EPOCH));
    assert_eq!(text.last().unwrap(), "shown: alloc_space");
}

#[test]
fn a_location_knows_its_mapping_and_a_clock_before_1970_does_no_harm() {
    let mapping = Mapping { start: 0x30, end: 0x40, offset: 0, file: "/bin/x".into() };
    let bytes = encode(&heap(), &[mapping], View::InUse, UNIX_EPOCH - std::time::Duration::from_secs(9));
    let profile = fields(&bytes);
    let mapped: Vec<_> =
        of(&profile, 4).iter().map(|bytes| fields(bytes)).map(|l| (number(&l, 3), number(&l, 2))).collect();
    // The call that returns to the end of a mapping is in it.
    assert_eq!(mapped, [(0x1f, 0), (0x2f, 0), (0x3f, 1)]);
    assert_eq!(number(&profile, 9), 0);
}

#[test]
fn missing_samples_are_said() {
    let (_, profile) = read(&profile(&Heap { lost: 3, ..heap() }, View::InUse, UNIX_EPOCH));
    let comment = numbers(&of(&profile, 13)[0])[0];
    let text = &of(&profile, 6)[usize::try_from(comment).unwrap()];
    assert!(text.starts_with(b"3 samples are missing"));
}
