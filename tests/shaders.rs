//! Every shader parses and validates, and every uniform lies in memory as its Rust mirror says. Needs no adapter.

use gleaner::{gpu::shader, policy::gpu::layouts};
use naga::{
    TypeInner,
    valid::{Capabilities, ValidationFlags, Validator},
};

fn parse(name: &str) -> naga::Module {
    parse_with(name, &[])
}

fn parse_with(name: &str, swaps: &[(&str, &str)]) -> naga::Module {
    let (_, text) = shader::SHADERS.iter().find(|(own, _)| *own == name).unwrap();
    let text = shader::expand_with(text, swaps).unwrap();
    naga::front::wgsl::parse_str(&text).unwrap_or_else(|error| panic!("{name}: {}", error.emit_to_string(&text)))
}

#[test]
fn every_shader_is_valid() {
    for (name, _) in shader::SHADERS {
        let module = parse(name);
        // What takes another's place on adapters with subgroups says so.
        validate(name, &module, name.ends_with("_subgroup"));
    }
    for (name, swap, subgroups) in [
        ("fused", ("shared/network_uniform", "shared/network_workgroup"), false),
        ("linear", ("shared/fours", "shared/fours_half"), false),
        ("layer_norm", ("shared/reduce", "shared/reduce_subgroup"), true),
    ] {
        let module = parse_with(name, &[swap]);
        validate(swap.1, &module, subgroups);
    }
}

/// Every adapter of wgpu's native backends unpacks halves.
fn validate(name: &str, module: &naga::Module, subgroups: bool) {
    let mut capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    capabilities.set(Capabilities::SUBGROUP, subgroups);
    let mut validator = Validator::new(ValidationFlags::all(), capabilities);
    validator.validate(module).unwrap_or_else(|error| panic!("{name}: {error:?}"));
}

#[test]
fn the_table_lists_every_file() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let stems = |folder: &std::path::Path, prefix: &str| -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.filter(|path| path.extension().is_some_and(|ending| ending == "wgsl"));
        files.map(|path| format!("{prefix}{}", path.file_stem().unwrap().to_str().unwrap())).collect()
    };
    let mut files = stems(&root, "");
    files.extend(stems(&root.join("shared"), "shared/"));
    files.sort();
    let mut listed: Vec<_> = shader::SHADERS.iter().map(|(name, _)| name.to_string()).collect();
    listed.sort();
    assert_eq!(files, listed);
}

#[test]
fn kernels_have_one_entry_point_of_64_threads_and_params_first() {
    for (name, _) in shader::SHADERS.iter().filter(|(name, _)| !name.starts_with("shared/")) {
        let module = parse(name);
        let [entry] = &module.entry_points[..] else { panic!("{name}: entry points") };
        assert_eq!((entry.name.as_str(), entry.workgroup_size), ("main", [gleaner::gpu::GROUP, 1, 1]), "{name}");
        let params = module.global_variables.iter().find(|(_, variable)| variable.space == naga::AddressSpace::Uniform);
        let binding = params.and_then(|(_, variable)| variable.binding).unwrap();
        assert_eq!((binding.group, binding.binding), (0, 0), "{name}");
    }
}

#[test]
fn uniforms_equal_their_mirrors() {
    let layouts = layouts();
    for layout in &layouts {
        let module = parse(layout.shader);
        let found = module.types.iter().find(|(_, ty)| ty.name.as_deref() == Some(layout.name));
        let (_, ty) = found.unwrap_or_else(|| panic!("{} has no struct {}", layout.shader, layout.name));
        let TypeInner::Struct { members, span } = &ty.inner else { panic!("{} is no struct", layout.name) };
        let members: Vec<_> = members.iter().map(|m| (m.name.as_deref().unwrap(), m.offset as usize)).collect();
        assert_eq!(members, layout.members, "{}", layout.name);
        assert_eq!(*span as usize, layout.size, "{}", layout.name);
    }
    for (name, _) in shader::SHADERS.iter().filter(|(name, _)| !name.starts_with("shared/")) {
        assert!(layouts.iter().any(|layout| layout.shader == *name), "{name} has no mirror");
    }
}
