//! RON files: read within limits, and errors that say where, which field, what value, and what is legal.

use std::{fs::File, io::Read, ops::Range, path::Path};

use ron::{Options, error::SpannedError, extensions::Extensions};
use serde::de::DeserializeOwned;

use crate::error::Error;

/// Deeper nesting is refused by the parser, and not looked at in search of a field.
const MAX_DEPTH: usize = 128;
/// Characters of a value that a message shows.
const SHOWN: usize = 40;

/// Reads the text of a file of at most `limit` bytes. Errors: [`Error::Io`]; [`Error::Ron`] for one that is larger, and
/// at the first byte that is no UTF-8.
pub(crate) fn read(path: &Path, limit: u64) -> Result<String, Error> {
    let io = |source| Error::Io { path: path.into(), source };
    let mut bytes = Vec::new();
    File::open(path).map_err(io)?.take(limit + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > limit {
        let problem = format!("the file is too large; legal: at most {limit} bytes");
        return Err(Error::Ron { path: path.into(), line: 1, column: 1, problem });
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
        let (line, column) = position(&text, valid);
        let problem = "a byte that is no UTF-8; legal: UTF-8 text".into();
        Error::Ron { path: path.into(), line, column, problem }
    })
}

/// Parses a text. `Some(…)` may be left out around the value of an optional field. Errors: [`Error::Ron`].
pub(crate) fn parse<D: DeserializeOwned>(path: &Path, text: &str) -> Result<D, Error> {
    let options = Options::default().with_default_extension(Extensions::IMPLICIT_SOME).with_recursion_limit(MAX_DEPTH);
    options.from_str(text).map_err(|error| parse_error(path, text, &error))
}

fn parse_error(path: &Path, text: &str, error: &SpannedError) -> Error {
    use ron::Error::{DuplicateStructField, MissingStructField, NoSuchStructField};
    let fields = Fields::of(text);
    let at = offset(text, error.span.start.line, error.span.start.col);
    let (named, at) = match &error.code {
        // The parser stands behind the name: the place of the name itself is meant.
        NoSuchStructField { found: name, .. } => fields.name_before(name, at),
        DuplicateStructField { field: name, .. } => fields.name_before(name, at),
        // What is missing is no fault of the field before.
        MissingStructField { .. } => (None, at),
        _ => fields.value_around(at),
    };
    let mut problem = match named {
        Some(field) => format!("{} is {}: {}", fields.path(field), fields.shown(field), error.code),
        None => error.code.to_string(),
    };
    if let Some(legal) = legal(&error.code) {
        problem = format!("{problem}; legal: {legal}");
    }
    let (line, column) = position(text, at);
    Error::Ron { path: path.into(), line, column, problem }
}

/// What is legal where the parser's own message does not say it.
fn legal(code: &ron::Error) -> Option<&'static str> {
    use ron::Error::*;
    Some(match code {
        Eof => "the whole of a file; this one is cut",
        ExpectedBoolean => "true or false",
        ExpectedFloat => "a number, such as 0.5",
        ExpectedInteger | IntegerOutOfBounds | InvalidIntegerDigit { .. } => {
            "a whole number from 0 to what the field's type holds"
        }
        ExpectedString => "text in double quotes",
        ExpectedArray => "a list: [ … ]",
        ExpectedStructLike | ExpectedNamedStructLike(_) => "fields in parentheses: (name: value, …)",
        ExpectedOption => "a value, or None",
        ExceededRecursionLimit => "at most 128 levels",
        MissingStructField { .. } => "a value for it, as it has no default",
        TrailingCharacters => "one value in parentheses, and nothing behind it",
        _ => return None,
    })
}

/// An error of what a parsed text describes, at the first of these fields that the text has. `a.b` stands for field `b`
/// of field `a`; what the text leaves out is looked for one level up.
pub(crate) fn located(path: &Path, text: &str, candidates: &[String], problem: &Error) -> Error {
    let fields = Fields::of(text);
    let found = candidates.iter().find_map(|path| fields.find(path));
    let parents = || candidates.iter().find_map(|path| fields.find(path.rsplit_once('.')?.0));
    let at = found.or_else(parents).map_or(0, |field| fields.all[field].name.start);
    let (line, column) = position(text, at);
    Error::Ron { path: path.into(), line, column, problem: problem.to_string() }
}

/// A field of a text.
#[derive(Debug)]
struct Field {
    /// The field that it is within.
    parent: Option<usize>,
    name: Range<usize>,
    value: Range<usize>,
}

/// The fields of a text, well-formed or not, by ascending place.
struct Fields<'t> {
    text: &'t str,
    all: Vec<Field>,
}

impl<'t> Fields<'t> {
    fn of(text: &'t str) -> Self {
        let mut scan = Scan { text, all: Vec::new(), open: vec![None] };
        let mut at = 0;
        while let Some(next) = scan.token(at) {
            at = next;
        }
        Self { text, all: scan.all }
    }

    fn name(&self, field: usize) -> &'t str {
        &self.text[self.all[field].name.clone()]
    }

    /// Names from the outermost field to this one, with dots between.
    fn path(&self, field: usize) -> String {
        let parents = std::iter::successors(Some(field), |field| self.all[*field].parent);
        let mut names: Vec<_> = parents.map(|field| self.name(field)).collect();
        names.reverse();
        names.join(".")
    }

    fn find(&self, path: &str) -> Option<usize> {
        let last = path.rsplit('.').next();
        (0..self.all.len()).find(|field| Some(self.name(*field)) == last && self.path(*field) == path)
    }

    /// The innermost field that `at` lies in, and the place within its value.
    fn value_around(&self, at: usize) -> (Option<usize>, usize) {
        let within = |field: &Field| (field.name.start..=field.value.end).contains(&at);
        let found = self.all.iter().rposition(within);
        (found, found.map_or(at, |field| at.max(self.all[field].value.start)))
    }

    /// The last field of this name that begins at `at` or before, and where.
    fn name_before(&self, name: &str, at: usize) -> (Option<usize>, usize) {
        let found = (0..self.all.len()).rev().find(|i| self.all[*i].name.start <= at && self.name(*i) == name);
        (found, found.map_or(at, |field| self.all[field].name.start))
    }

    /// The beginning of a field's value.
    fn shown(&self, field: usize) -> String {
        let line = self.text[self.all[field].value.clone()].lines().next().unwrap_or_default().trim();
        match line.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None if line.is_empty() => "nothing".into(),
            None => line.into(),
        }
    }
}

/// A walk over a text's brackets and names.
struct Scan<'t> {
    text: &'t str,
    all: Vec<Field>,
    /// By open bracket: the field that is being read in it. The first entry is outside all brackets.
    open: Vec<Option<usize>>,
}

impl Scan<'_> {
    /// Takes in what begins at `at`; returns where the next token begins.
    fn token(&mut self, at: usize) -> Option<usize> {
        let at = skip_blank(self.text, at);
        let rest = &self.text[at..];
        let first = rest.chars().next()?;
        match first {
            '(' | '[' | '{' if self.open.len() > MAX_DEPTH => return None,
            '(' | '[' | '{' => self.open.push(None),
            ')' | ']' | '}' => {
                self.close(at);
                if self.open.len() > 1 {
                    self.open.pop();
                }
            }
            ',' => self.close(at),
            '"' => return Some(at + string_length(rest)),
            'r' if rest[1..].trim_start_matches('#').starts_with('"') => return Some(at + raw_length(rest)),
            first if first == '_' || first.is_alphabetic() => return Some(self.word(at)),
            _ => {}
        }
        Some(at + first.len_utf8())
    }

    fn word(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        let end = at + rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
        let colon = skip_blank(self.text, end);
        if !self.text[colon..].starts_with(':') {
            return end;
        }
        self.close(at);
        let parent = self.open.iter().rev().copied().flatten().next();
        let value = skip_blank(self.text, colon + 1);
        self.all.push(Field { parent, name: at..end, value: value..self.text.len() });
        if let Some(current) = self.open.last_mut() {
            *current = Some(self.all.len() - 1);
        }
        colon + 1
    }

    /// The field that is being read ends at `at`.
    fn close(&mut self, at: usize) {
        if let Some(field) = self.open.last_mut().and_then(Option::take) {
            let value = &mut self.all[field].value;
            value.end = at.max(value.start);
        }
    }
}

/// The end of white space and comments from `at` on.
fn skip_blank(text: &str, mut at: usize) -> usize {
    loop {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start().len();
        let comment = match &rest[blank..] {
            comment if comment.starts_with("//") => comment.find('\n').unwrap_or(comment.len()),
            comment if comment.starts_with("/*") => comment.find("*/").map_or(comment.len(), |end| end + 2),
            _ => 0,
        };
        at += blank + comment;
        if comment == 0 {
            return at;
        }
    }
}

/// Bytes of the quoted string that `text` begins with.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(end, _)| end + 1)
}

/// Bytes of the raw string that `text` begins with.
fn raw_length(text: &str) -> usize {
    let quote = text.find('"').unwrap_or(0);
    let end = format!("\"{}", &text[1..quote]);
    text[quote + 1..].find(&end).map_or(text.len(), |found| quote + 1 + found + end.len())
}

/// Line and column, in characters from 1, of byte `at`.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// The byte at a line and column.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = &text[start..];
    start + rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(at, _)| at)
}
