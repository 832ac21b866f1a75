// Sums over a workgroup. Every thread adds the parts up in the same order, so two barriers do and all have the same bits.
#import shared/grid

struct Thread {
    @builtin(local_invocation_index) local: u32,
}

var<workgroup> parts: array<f32, GROUP>;

fn group_sum(thread: Thread, part: f32) -> f32 {
    workgroupBarrier();
    parts[thread.local] = part;
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < GROUP; i++) {
        sum += parts[i];
    }
    return sum;
}
