//! Shader texts and their `#import` lines.

use crate::error::Error;

macro_rules! shaders {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../shaders/", $name, ".wgsl")))),*]
    };
}

/// Every file of `shaders/`, by its path without the ending.
pub const SHADERS: &[(&str, &str)] = shaders![
    "linear",
    "layer_norm",
    "conv2d",
    "embedding",
    "gru",
    "lstm",
    "copy",
    "fused",
    "categorical",
    "multi_discrete",
    "multi_binary",
    "gaussian",
    "tanh_gaussian",
    "deterministic",
    "q",
    "shared/activation",
    "shared/fours",
    "shared/fours_half",
    "shared/grid",
    "shared/math",
    "shared/network",
    "shared/network_uniform",
    "shared/network_workgroup",
    "shared/recurrent",
    "shared/reduce",
    "shared/reduce_subgroup",
    "shared/threefry",
    "shared/weights",
];

/// The text of the shader called `name`, its imports expanded.
///
/// # Errors
/// [`Error::Gpu`] if there is no such shader; the legal names are told.
pub fn source(name: &str) -> Result<String, Error> {
    expand(find(name)?)
}

/// Replaces each line `#import NAME` with that shader's text; a shader comes in once however often it is asked for.
///
/// # Errors
/// [`Error::Gpu`] if there is no such shader; the legal names are told.
pub fn expand(text: &str) -> Result<String, Error> {
    expand_with(text, &[])
}

/// The same, with another shader in place of some that are imported: pairs of a name and the name that replaces it.
///
/// # Errors
/// Those of [`expand`].
pub fn expand_with(text: &str, swaps: &[(&str, &str)]) -> Result<String, Error> {
    let mut out = String::new();
    append(text, swaps, &mut Vec::new(), &mut out)?;
    Ok(out)
}

fn append<'a>(
    text: &'a str,
    swaps: &[(&'a str, &'a str)],
    imported: &mut Vec<&'a str>,
    out: &mut String,
) -> Result<(), Error> {
    for line in text.lines() {
        let swapped = |name| swaps.iter().find(|(own, _)| *own == name).map_or(name, |(_, other)| *other);
        match line.strip_prefix("#import ").map(str::trim).map(swapped) {
            Some(name) if imported.contains(&name) => {}
            Some(name) => {
                imported.push(name);
                append(find(name)?, swaps, imported, out)?;
            }
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    Ok(())
}

pub(super) fn find(name: &str) -> Result<&'static str, Error> {
    SHADERS.iter().find(|(own, _)| *own == name).map(|(_, text)| *text).ok_or_else(|| {
        let legal: Vec<_> = SHADERS.iter().map(|(name, _)| *name).collect();
        Error::Gpu(format!("shader is {name:?}; legal: {}", legal.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_comes_once_and_an_unknown_one_is_named() {
        let text = expand("#import shared/math\n#import shared/threefry\n#import shared/math\nconst X = 1;").unwrap();
        assert_eq!(text.matches("fn threefry(").count(), 1);
        assert!(text.ends_with("const X = 1;\n") && !text.contains("#import"));
        let text = expand_with("#import shared/reduce", &[("shared/reduce", "shared/reduce_subgroup")]).unwrap();
        assert!(text.contains("subgroupAdd(") && text.contains("const GROUP"), "{text}");
        let error = expand("#import shared/nothing").unwrap_err().to_string();
        assert!(error.contains("shared/nothing") && error.contains("shared/math"), "{error}");
    }
}
