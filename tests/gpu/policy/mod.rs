//! Policies on the GPU: the kernels equal their CPU twins, the network equals a naive reference at any number of rows,
//! every output is written, states stay on the device, faults are reported once, and memory is flat.

mod faults;
mod forms;
mod golden;
mod heads;
mod kernels;
mod layers;
mod network;
mod reference;
mod traffic;

/// Names and bodies.
pub const TESTS: &[(&str, fn())] = &[
    ("policy::kernels::threefry_gives_the_published_vectors", kernels::threefry_gives_the_published_vectors),
    ("policy::kernels::functions_equal_their_cpu_twins", kernels::functions_equal_their_cpu_twins),
    ("policy::kernels::l12_nan_and_infinity_are_told_by_bits", kernels::l12_nan_and_infinity_are_told_by_bits),
    (
        "policy::kernels::l9_a_folded_dispatch_reaches_the_last_item",
        kernels::l9_a_folded_dispatch_reaches_the_last_item,
    ),
    ("policy::network::equals_the_reference", network::equals_the_reference),
    ("policy::network::l14_any_number_of_rows", network::l14_any_number_of_rows),
    ("policy::network::four_million_rows", network::four_million_rows),
    ("policy::network::a_row_does_not_depend_on_the_others", network::a_row_does_not_depend_on_the_others),
    ("policy::network::new_weights_act_in_the_next_forward", network::new_weights_act_in_the_next_forward),
    ("policy::network::threads_share_a_device", network::threads_share_a_device),
    ("policy::network::masks_are_obeyed", network::masks_are_obeyed),
    ("policy::network::every_output_is_written", network::every_output_is_written),
    ("policy::network::nan_comes_through", network::nan_comes_through),
    ("policy::layers::equal_the_cpu_at_any_number_of_rows", layers::equal_the_cpu_at_any_number_of_rows),
    ("policy::layers::states_are_the_cpus", layers::states_are_the_cpus),
    ("policy::layers::the_store_grows_and_keeps_its_states", layers::the_store_grows_and_keeps_its_states),
    ("policy::layers::a_row_does_not_depend_on_the_others", layers::a_row_does_not_depend_on_the_others),
    ("policy::layers::an_evaluator_hands_states_in_and_out", layers::an_evaluator_hands_states_in_and_out),
    ("policy::layers::a_wrong_memory_is_refused", layers::a_wrong_memory_is_refused),
    ("policy::layers::images_of_bytes_equal_the_cpu", layers::images_of_bytes_equal_the_cpu),
    ("policy::forms::the_adapter_decides", forms::the_adapter_decides),
    ("policy::forms::every_form_equals_the_reference", forms::every_form_equals_the_reference),
    (
        "policy::forms::halves_are_near_and_exact_where_weights_are_halves",
        forms::halves_are_near_and_exact_where_weights_are_halves,
    ),
    ("policy::forms::halves_take_half_the_bytes", forms::halves_take_half_the_bytes),
    ("policy::forms::a_weight_too_large_for_a_half_is_named", forms::a_weight_too_large_for_a_half_is_named),
    ("policy::golden::perceptrons", golden::perceptrons),
    ("policy::golden::layer_norm", golden::layer_norm),
    ("policy::golden::convolutions_of_bytes", golden::convolutions_of_bytes),
    ("policy::golden::recurrent_layers", golden::recurrent_layers),
    ("policy::golden::categorical", golden::categorical),
    ("policy::golden::gaussian", golden::gaussian),
    ("policy::golden::tanh_gaussian", golden::tanh_gaussian),
    ("policy::heads::equal_the_cpu", heads::equal_the_cpu),
    ("policy::heads::processes_equal_the_cpu", heads::processes_equal_the_cpu),
    ("policy::heads::frequencies_are_the_probabilities", heads::frequencies_are_the_probabilities),
    ("policy::heads::nan_and_forbidding_masks_equal_the_cpu", heads::nan_and_forbidding_masks_equal_the_cpu),
    ("policy::traffic::the_documented_table_is_true", traffic::the_documented_table_is_true),
    ("policy::faults::l10_hardware_comes_before_software", faults::l10_hardware_comes_before_software),
    ("policy::faults::l6_a_buffer_over_the_limit_is_refused", faults::l6_a_buffer_over_the_limit_is_refused),
    ("policy::faults::a_wrong_call_is_refused", faults::a_wrong_call_is_refused),
    ("policy::faults::a_wrong_shader_is_refused", faults::a_wrong_shader_is_refused),
    ("policy::faults::l3_a_lost_device_is_reported_once", faults::l3_a_lost_device_is_reported_once),
    ("policy::faults::a_device_lost_in_the_middle_of_a_forward", faults::a_device_lost_in_the_middle_of_a_forward),
    ("policy::faults::l1_a_wait_has_a_deadline", faults::l1_a_wait_has_a_deadline),
    ("policy::faults::k6_memory_is_flat", faults::k6_memory_is_flat),
];
