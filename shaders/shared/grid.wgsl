// Items of a dispatch: 64 a group, groups folded into two dimensions (`gpu::pipeline::grid`). The caller checks bounds.

const GROUP: u32 = 64u;

fn item(group: vec3<u32>, groups: vec3<u32>, local: u32) -> u32 {
    return (group.y * groups.x + group.x) * GROUP + local;
}
