// Sums over a workgroup by its subgroups: each adds its parts up in registers, and only as many sums as there are
// subgroups go through workgroup memory. Takes the place of `reduce` where the adapter has subgroups.
#import shared/grid

struct Thread {
    @builtin(local_invocation_index) local: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
}

var<workgroup> parts: array<f32, GROUP>;

fn group_sum(thread: Thread, part: f32) -> f32 {
    let own = subgroupAdd(part);
    workgroupBarrier();
    if thread.lane == 0u {
        parts[thread.subgroup] = own;
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < thread.subgroups; i++) {
        sum += parts[i];
    }
    return sum;
}
