//! A translated document stays in step with its original, as far as somebody can tell who does not read its language.
//!
//! In: both texts. Out: findings about what is the same in every language and differs: headings by their levels, links, pictures,
//! names in code style, lines of commands without their comments, and tables by their cells. Which words stand around them is left to people.

use super::links::links;
use crate::finding::Finding;

/// What a document consists of, whatever its language.
#[derive(Default)]
struct Skeleton<'a> {
    /// `##` and the like, and rows of tables by their number of cells, in their order.
    shape: Vec<String>,
    /// Lines in blocks of code.
    commands: Vec<&'a str>,
    /// Sorted, because languages order their sentences differently.
    links: Vec<&'a str>,
    names: Vec<&'a str>,
}

/// All rules for a translation. Links from each to the other do not count.
pub(crate) fn translation(path: &str, text: &str, original: &str) -> Vec<Finding> {
    let (mine, theirs) = (Skeleton::of(text), Skeleton::of(original));
    let differences = [
        in_order("heading or row of a table", &mine.shape(), &theirs.shape()),
        in_order("line of commands", &mine.commands, &theirs.commands),
        sorted("link", &mine.links, &theirs.links),
        sorted("name in code style", &mine.names, &theirs.names),
    ];
    differences.into_iter().flatten().map(|rule| Finding::of(path, rule)).collect()
}

impl<'a> Skeleton<'a> {
    fn of(text: &'a str) -> Self {
        let mut skeleton = Self::default();
        let mut in_code = false;
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
                skeleton.commands.push(line);
            } else if in_code {
                skeleton.commands.push(without_comment(line));
            } else {
                skeleton.add(line);
            }
        }
        skeleton.links.sort_unstable();
        skeleton.names.sort_unstable();
        skeleton
    }

    fn shape(&self) -> Vec<&str> {
        self.shape.iter().map(String::as_str).collect()
    }

    fn add(&mut self, line: &'a str) {
        if line.starts_with('#') {
            self.shape.push(line.chars().take_while(|letter| *letter == '#').collect());
        } else if line.starts_with('|') {
            self.shape.push(format!("a row of {}", line.matches('|').count()));
        }
        self.links.extend(links(line).map(|(_, target)| target).filter(|to| !is_other_language(to)));
        self.names.extend(line.split('`').skip(1).step_by(2));
    }
}

fn is_other_language(target: &str) -> bool {
    matches!(target, "README.md" | "README.zh.md")
}

/// A comment stands behind some blanks, as opposed to the prompt of root.
fn without_comment(line: &str) -> &str {
    line.split_once("  # ").map_or(line, |(command, _)| command).trim_end()
}

/// The first place where two lists differ.
fn in_order(what: &str, mine: &[&str], theirs: &[&str]) -> Option<String> {
    let (here, there) = first_difference(mine, theirs)?;
    let text = |line: Option<&str>| line.map_or("nothing".to_owned(), |line| format!("`{line}`"));
    Some(format!("not as the original: {what} {} here, and {} there", text(here), text(there)))
}

/// What only one of two sorted lists has: where they differ first, the smaller one.
fn sorted(what: &str, mine: &[&str], theirs: &[&str]) -> Option<String> {
    match first_difference(mine, theirs)? {
        (Some(here), there) if there.is_none_or(|there| here < there) => {
            Some(format!("more than the original: {what} `{here}`"))
        }
        (_, there) => there.map(|there| format!("less than the original: {what} `{there}` is missing")),
    }
}

fn first_difference<'a>(mine: &[&'a str], theirs: &[&'a str]) -> Option<(Option<&'a str>, Option<&'a str>)> {
    let at = |list: &[&'a str], index: usize| list.get(index).copied();
    let longest = mine.len().max(theirs.len());
    (0..longest).map(|index| (at(mine, index), at(theirs, index))).find(|(here, there)| here != there)
}
