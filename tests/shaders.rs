//! Every shader parses and validates, every struct lies in memory as its Rust mirror says, and every binding is what is bound
//! there. Needs no adapter.

use gleaner::{
    gpu::shader,
    policy::gpu::{Slot, layouts, slots},
};
use naga::{
    AddressSpace, StorageAccess, TypeInner,
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
        ("fused", WORKGROUP, false),
        ("linear", HALVES, false),
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

fn is_kernel(name: &&str) -> bool {
    !name.starts_with("shared/")
}

#[test]
fn structs_equal_their_mirrors() {
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
    // Each struct that a uniform or a storage binding is made of, under each text that a shader may be given.
    let mut seen = 0;
    for (name, swaps) in variants() {
        let module = parse_with(name, &swaps);
        for (_, variable) in module.global_variables.iter().filter(|(_, variable)| variable.binding.is_some()) {
            for structure in structs(&module, variable.ty) {
                let mirrored =
                    |layout: &&gleaner::policy::gpu::Layout| layout.name == structure && layout.shader == name;
                assert!(layouts.iter().any(|layout| mirrored(&layout)), "{name}: {structure} has no mirror");
                seen += 1;
            }
        }
    }
    assert!(seen > layouts.len(), "{seen} structs");
}

/// Kernels, and what may take the place of what they import.
fn variants() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    let plain = shader::SHADERS.iter().map(|(name, _)| (*name, vec![])).filter(|(name, _)| is_kernel(name));
    plain.chain([("fused", vec![WORKGROUP]), ("linear", vec![HALVES])]).collect()
}

const WORKGROUP: (&str, &str) = ("shared/network_uniform", "shared/network_workgroup");
const HALVES: (&str, &str) = ("shared/fours", "shared/fours_half");

/// Names of the structs in a type.
fn structs(module: &naga::Module, ty: naga::Handle<naga::Type>) -> Vec<String> {
    let ty = &module.types[ty];
    match &ty.inner {
        TypeInner::Struct { members, .. } => {
            let inner = members.iter().flat_map(|member| structs(module, member.ty));
            inner.chain(ty.name.clone()).collect()
        }
        TypeInner::Array { base, .. } => structs(module, *base),
        _ => Vec::new(),
    }
}

/// Bytes from one element of an array to the next; 0 for what is none.
fn stride(module: &naga::Module, ty: naga::Handle<naga::Type>) -> usize {
    match module.types[ty].inner {
        TypeInner::Array { stride, .. } => stride as usize,
        _ => 0,
    }
}

/// What a shader calls it.
fn variables(slot: &Slot) -> &'static [&'static str] {
    match slot.name.as_str() {
        "from" => &["from_"],
        "to" => &["to_", "params_", "values"],
        "weight_ih_l0" => &["weight_x"],
        "weight_hh_l0" => &["weight_h"],
        "bias_ih_l0" => &["bias_x"],
        "bias_hh_l0" => &["bias_h"],
        "params" => &["logits", "outputs", "values"],
        "words" => &["counts", "elements", "free", "words"],
        "weight" => &["weight"],
        "bias" => &["bias"],
        "network" => &["network"],
        "memory" => &["memory"],
        "states" => &["states"],
        "draws" => &["draws"],
        "masks" => &["masks"],
        "actions" => &["actions"],
        "log_probs" => &["log_probs"],
        other => panic!("what is {other}?"),
    }
}

#[test]
fn bindings_are_what_is_bound() {
    let slots = slots();
    for (name, swaps) in variants() {
        let module = parse_with(name, &swaps);
        let (_, bound) =
            slots.iter().find(|(own, _)| *own == name).unwrap_or_else(|| panic!("{name}: nothing is bound"));
        let mut found: Vec<_> = module.global_variables.iter().filter_map(|(_, v)| Some((v.binding?, v))).collect();
        found.sort_by_key(|(binding, _)| binding.binding);
        assert_eq!(found.len(), bound.len() + 1, "{name}");
        for (number, ((binding, variable), slot)) in (1..).zip(found[1..].iter().zip(bound)) {
            let own = variable.name.as_deref().unwrap();
            assert_eq!((binding.group, binding.binding), (0, number), "{name}: {own}");
            assert!(variables(slot).contains(&own), "{name}, binding {number}: {own} is bound to {}", slot.name);
            // A load brings the weights of 4 outputs: as halves they are half as long.
            let halves = swaps.contains(&HALVES) && slot.name == "weight";
            assert_eq!(stride(&module, variable.ty), if halves { 8 } else { slot.stride }, "{name}: {own}");
            let written = match variable.space {
                AddressSpace::Storage { access } => access.contains(StorageAccess::STORE),
                AddressSpace::Uniform => false,
                space => panic!("{name}: {own} is in {space:?}"),
            };
            assert_eq!(written, slot.written, "{name}: {own}");
        }
    }
}

#[test]
fn a_fused_network_is_an_array_of_layers_and_one_of_words() {
    let module = parse("fused");
    let (_, ty) = module.types.iter().find(|(_, ty)| ty.name.as_deref() == Some("FusedNetwork")).unwrap();
    let TypeInner::Struct { members, .. } = &ty.inner else { panic!("no struct") };
    let strides: Vec<_> = members.iter().map(|member| stride(&module, member.ty)).collect();
    let layer = layouts().into_iter().find(|layout| layout.name == "FusedLayer").unwrap().size;
    assert_eq!(strides, [layer, 16]);
}
