"""Functions of llama.h that exist by name and are not built yet: each raises NotImplementedError with its reason."""

_STATE = "saving and loading states is not supported yet"
_ADAPTERS = "LoRA adapters and control vectors are not supported yet"
_SHIFT = "moving positions in the memory is not supported yet"
_DEFRAG = "defragmentation on demand is not supported yet"
_SAVE = "quantizing and saving models is not supported yet"
_TRAINING = "training is not supported yet"
_SAMPLERS = "this sampler is not supported yet"
_GRAMMAR = "grammars are not supported yet"
_CHAT = "chat templates are not supported yet"
_PERF = "performance counters of samplers are not supported yet"

_NAMES = {
    _STATE: """llama_state_get_data llama_state_set_data llama_state_load_file llama_state_save_file llama_state_seq_get_size
               llama_state_seq_get_data llama_state_seq_set_data llama_state_seq_save_file llama_state_seq_load_file llama_copy_state_data
               llama_set_state_data llama_load_session_file llama_save_session_file llama_state_seq_get_size_ext
               llama_state_seq_get_data_ext llama_state_seq_set_data_ext""",
    _ADAPTERS: """llama_adapter_lora_init llama_adapter_lora_free llama_set_adapter_lora llama_rm_adapter_lora llama_clear_adapter_lora
                  llama_apply_adapter_cvec llama_set_adapters_lora llama_set_adapter_cvec""",
    _SHIFT: """llama_memory_seq_add llama_memory_seq_div llama_kv_self_seq_add llama_kv_self_seq_div llama_kv_cache_seq_add
               llama_kv_cache_seq_div""",
    _DEFRAG: "llama_kv_self_defrag llama_kv_cache_defrag",
    _SAVE: "llama_model_quantize llama_model_quantize_default_params llama_model_save_to_file",
    _TRAINING: """llama_opt_init llama_opt_epoch llama_opt_param_filter_all llama_opt_default_params ggml_opt_dataset_init
                  ggml_opt_dataset_free ggml_opt_dataset_ndata ggml_opt_dataset_data ggml_opt_dataset_labels ggml_opt_dataset_shuffle
                  ggml_opt_dataset_get_batch ggml_opt_result_init ggml_opt_result_free ggml_opt_result_reset ggml_opt_result_ndata
                  ggml_opt_result_loss ggml_opt_result_pred ggml_opt_result_accuracy ggml_opt_epoch_callback_progress_bar
                  ggml_opt_get_default_optimizer_params ggml_opt_get_constant_optimizer_params""",
    _SAMPLERS: """llama_sampler_init llama_sampler_init_softmax llama_sampler_init_typical llama_sampler_init_temp_ext
                  llama_sampler_init_xtc llama_sampler_init_top_n_sigma llama_sampler_init_mirostat
                  llama_sampler_init_mirostat_v2 llama_sampler_init_penalties llama_sampler_init_dry llama_sampler_init_logit_bias
                  llama_sampler_init_infill""",
    _GRAMMAR: "llama_sampler_init_grammar llama_sampler_init_grammar_lazy llama_sampler_init_grammar_lazy_patterns",
    _CHAT: "llama_chat_apply_template llama_chat_builtin_templates",
    _PERF: "llama_perf_sampler llama_perf_sampler_print llama_perf_sampler_reset",
}


def _later(name, reason):
    def function(*args, **kwargs):
        raise NotImplementedError(f"{name}: {reason}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Not built yet: {reason}."
    return function


globals().update({name: _later(name, reason) for reason, names in _NAMES.items() for name in names.split()})
