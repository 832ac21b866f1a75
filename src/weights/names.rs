//! Names of tensors in the network and in a file of somebody else's.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter::successors,
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::header::MAX_NAME;
use crate::{components::name_list, error::Error, ron_file};

/// Longest file of a name map, in bytes: 1 MiB.
pub const MAX_NAMES_FILE: u64 = 1 << 20;

/// Which name of a network is which name of a file, both ways.
///
/// An entry is the name of a tensor or of a module, which stands for all tensors in it; of several entries for a tensor
/// the longest counts. A tensor without an entry is called the same on both sides.
///
/// ```
/// use gleaner::weights::NameMap;
/// let map = NameMap::from_ron_str(r#"(
///     names: [("actor", "mlp_extractor.policy_net"), ("action", "action_net")],
///     ignore: ["mlp_extractor.value_net", "value_net"],
/// )"#)?;
/// assert_eq!(map.names[1].1, "action_net");
/// # Ok::<(), gleaner::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NameMap {
    /// Pairs: the name in the network, the name in the file. Default: none.
    pub names: Vec<(String, String)>,
    /// Names in the file that the network has no use for; such tensors may be of any type, and are not written.
    /// Default: none.
    pub ignore: Vec<String>,
    /// What is one tensor in the network and several in the file, under the network's names: the whole, and its parts, equal
    /// shares of its first axis in this order. Of modules each tensor is joined: `("action", ["mu", "log_std"])` makes
    /// `action.weight` of `mu.weight` and `log_std.weight`, and so with the biases. Default: none.
    pub join: Vec<(String, Vec<String>)>,
    /// Modules of the network whose layers have no bias in the file: it is zeros, and must be when it is written.
    /// Default: none.
    pub no_bias: Vec<String>,
}

/// From which names to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    ToNetwork,
    ToFile,
}

/// Entries of one side: what each is called on the other, none for one to ignore.
type Table<'a> = BTreeMap<&'a str, Option<&'a str>>;

impl NameMap {
    /// Reads RON text. Errors: [`Error::Ron`] with line and column.
    pub fn from_ron_str(text: &str) -> Result<Self, Error> {
        Self::parse(Path::new("names"), text)
    }

    /// Reads a RON file of at most [`MAX_NAMES_FILE`] bytes. Errors as [`from_ron_str`](Self::from_ron_str), or
    /// [`Error::Io`].
    pub fn from_ron_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::parse(path, &ron_file::read(path, MAX_NAMES_FILE)?)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, Error> {
        let map: Self = ron_file::parse(path, text)?;
        match map.tables() {
            Ok(_) => Ok(map),
            Err(problem) => {
                Err(ron_file::located(path, text, &["names", "join", "ignore"].map(String::from), &problem))
            }
        }
    }

    /// The names of the other side, each with the one of this side. Errors: [`Error::Tensor`] for a tensor whose name
    /// would not come back, which includes two that would be called the same; [`Error::Weights`] for entries that
    /// exclude each other and for one that no tensor has.
    pub(super) fn rename<'n>(
        &self,
        way: Way,
        names: impl Iterator<Item = &'n String> + Clone,
    ) -> Result<BTreeMap<String, &'n str>, Error> {
        let (to_network, to_file) = self.tables()?;
        let (there, back) = match way {
            Way::ToNetwork => (to_network, to_file),
            Way::ToFile => (to_file, to_network),
        };
        let mut unused: BTreeSet<&str> = there.keys().copied().collect();
        let mut renamed = BTreeMap::new();
        for name in names.clone() {
            let (entry, other) = translate(&there, name);
            unused.remove(entry);
            let Some(other) = other else { continue };
            if translate(&back, &other).1.as_ref() != Some(name) {
                let problem = format!("the name map makes it {other}, which it gives to another tensor or ignores");
                return Err(Error::Tensor { name: name.clone(), problem });
            }
            renamed.insert(other, name.as_str());
        }
        match unused.first() {
            Some(entry) => Err(Error::Weights(format!(
                "name map: no tensor is {entry} or is in it; there are: {}",
                name_list(names.map(String::as_str))
            ))),
            None => Ok(renamed),
        }
    }

    /// By name in the file, and by name in the network.
    fn tables(&self) -> Result<(Table<'_>, Table<'_>), Error> {
        self.check_joins()?;
        let pairs = self.names.iter().map(|(network, file)| (network.as_str(), file.as_str()));
        let ignored = self.ignore.iter().map(|file| (file.as_str(), None));
        let to_network = table("file", pairs.clone().map(|(network, file)| (file, Some(network))).chain(ignored))?;
        Ok((to_network, table("network", pairs.map(|(network, file)| (network, Some(file))))?))
    }
}

fn table<'a>(side: &str, entries: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Result<Table<'a>, Error> {
    let error = |problem| Err(Error::Weights(format!("name map: {problem}")));
    let mut table = Table::new();
    for (name, other) in entries {
        if !(1..=MAX_NAME).contains(&name.len()) {
            return error(format!("a {side} name of {} bytes; legal: 1 to {MAX_NAME}", name.len()));
        }
        if table.insert(name, other).is_some() {
            return error(format!("the {side} name {name} is there twice; legal: once"));
        }
    }
    Ok(table)
}

/// The entry that counts for a tensor, empty for none, and the tensor's name on the other side.
fn translate<'a>(table: &Table<'a>, name: &str) -> (&'a str, Option<String>) {
    // The name, then the modules that it lies in, from the innermost.
    let mut modules = successors(Some(name), |name| Some(name.rsplit_once('.')?.0));
    match modules.find_map(|module| table.get_key_value(module)) {
        Some((entry, other)) => (entry, other.map(|other| format!("{other}{}", &name[entry.len()..]))),
        None => ("", Some(name.into())),
    }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
