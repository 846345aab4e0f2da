//! Which files are mapped where: what turns an address of a profile into a place in a binary.

/// More than this are not looked at; the process has a few.
const MAX_MAPPINGS: usize = 64;

/// Code of a file, in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    pub(super) file: String,
}

/// The code of this process.
pub(super) fn mappings() -> Vec<Mapping> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(code).take(MAX_MAPPINGS).collect()
}

/// One line of `/proc/PID/maps`, if it is about code from a file.
fn code(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (mode, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let file = rest.get(rest.find('/')?..)?;
    let (start, end) = range.split_once('-')?;
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    (mode.as_bytes().get(2) == Some(&b'x')).then_some(())?;
    Some(Mapping {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        offset: hexadecimal(offset)?,
        file: file.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_files_counts() {
        let line = "55d0-56f0 r-xp 0000a000 fd:00 42                 /usr/bin/a b";
        let want = Mapping { start: 0x55d0, end: 0x56f0, offset: 0xa000, file: "/usr/bin/a b".into() };
        assert_eq!(code(line), Some(want));
        for other in [
            "55d0-56f0 r--p 0000a000 fd:00 42 /usr/bin/a",
            "7ffc-7ffd r-xp 00000000 00:00 0  [vdso]",
            "7ffc r-xp 00000000 00:00 0 /a",
            "x-y r-xp 0 00:00 0 /a",
            "",
        ] {
            assert_eq!(code(other), None, "{other}");
        }
    }

    #[test]
    fn this_process_has_code() {
        let here = u64::try_from(mappings as *const () as usize).unwrap();
        assert!(mappings().iter().any(|mapping| (mapping.start..mapping.end).contains(&here)));
    }
}
