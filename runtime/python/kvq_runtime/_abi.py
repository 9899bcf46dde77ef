# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Written by tools/scripts/generate_python_abi.py from runtime/include/kvq/runtime.h; edit that file instead.
"""Constants, structs and functions of kvq/runtime.h, as ctypes sees them."""

import ctypes
import enum

from ._struct import Struct

INTERFACE_VERSION = 1
RECORD_ALIGN = 128
WORKSPACE_ALIGN = 64
SPLIT_TOKENS = 1024
MAX_SPLIT_TOKENS = 2048
MAX_Q_LENGTH = 16
ALLOW_HOST_CODE = 1
USE_CAPTURE = 1
USE_DEMOTE = 2
USE_DEQUANTIZE = 4
SLOTS_32 = 1
RESERVED_SLOT = 2
STORED_BASIS = 4
ROWS_F32 = 8
DECODE_PLANNED = 1
FAULT_LENGTH = 1


kvq_status = ctypes.c_int32


class Status(enum.IntEnum):
    OK = 0
    INVALID_ARGUMENT = 1
    IO_ERROR = 2
    INVALID_FILE = 3
    OTHER_VERSION = 4
    UNSUPPORTED = 5
    OUT_OF_MEMORY = 6
    INTERNAL_ERROR = 7
    DEVICE_ERROR = 8
    OTHER_FORMAT = 9


kvq_element = ctypes.c_int32


class Element(enum.IntEnum):
    F16 = 1
    BF16 = 2
    F32 = 3


kvq_target = ctypes.c_int32


class Target(enum.IntEnum):
    CPU = 0
    CUDA = 1


class kvq_open_options(Struct):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("flags", ctypes.c_uint32),
        ("threads", ctypes.c_int32),
        ("target", kvq_target),
    ]


class kvq_model(Struct):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("layers", ctypes.c_int32),
        ("formats", ctypes.c_int32),
    ]


class kvq_geometry(Struct):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("format", ctypes.c_int32),
        ("q_heads", ctypes.c_int32),
        ("kv_heads", ctypes.c_int32),
        ("key_dim", ctypes.c_int32),
        ("value_dim", ctypes.c_int32),
        ("key_bits", ctypes.c_int32),
        ("value_bits", ctypes.c_int32),
        ("key_rows", kvq_element),
        ("value_rows", kvq_element),
        ("query_rows", kvq_element),
        ("page_tokens", ctypes.c_int32),
        ("page_step", ctypes.c_int32),
        ("append_step", ctypes.c_int32),
        ("query_rotated", ctypes.c_int32),
        ("output_rotated", ctypes.c_int32),
        ("scale", ctypes.c_float),
        ("softcap", ctypes.c_float),
        ("window", ctypes.c_int32),
        ("sinks", ctypes.c_int32),
        ("sink", ctypes.c_int32),
        ("recent", ctypes.c_int32),
        ("window_rows", kvq_element),
    ]


class kvq_page_geometry(Struct):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("record_bytes", ctypes.c_int64),
        ("head_stride", ctypes.c_int64),
        ("page_bytes", ctypes.c_int64),
        ("bits_per_element", ctypes.c_double),
        ("window_bytes", ctypes.c_int64),
        ("record_id", ctypes.c_uint8 * 32),
        ("method_id", ctypes.c_uint8 * 32),
    ]


class kvq_use(Struct):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("q_heads", ctypes.c_int32),
        ("kv_heads", ctypes.c_int32),
        ("layers", ctypes.c_int32),
        ("key_dim", ctypes.c_int32),
        ("value_dim", ctypes.c_int32),
        ("key_rows", kvq_element),
        ("value_rows", kvq_element),
        ("query_rows", kvq_element),
        ("page_tokens", ctypes.c_int32),
        ("q_length", ctypes.c_int32),
        ("sink", ctypes.c_int32),
        ("recent", ctypes.c_int32),
        ("softcap", ctypes.c_float),
        ("flags", ctypes.c_uint32),
    ]


kvq_reason_code = ctypes.c_int32


class ReasonCode(enum.IntEnum):
    NO_CODE = 1
    LAYERS = 2
    HEADS = 3
    HEAD_DIM = 4
    ELEMENT = 5
    PAGE = 6
    Q_LENGTH = 7
    WINDOWS = 8
    SOFTCAP = 9
    APPEND_STEP = 10
    CAPTURE = 11
    KERNEL = 12


class kvq_reason(Struct):
    _fields_ = [
        ("code", kvq_reason_code),
        ("layer", ctypes.c_int32),
        ("text", ctypes.c_char * 248),
    ]


kvq_item_fn = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


kvq_parallel_for = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, kvq_item_fn, ctypes.c_void_p)


class kvq_execution(Struct):
    _fields_ = [
        ("parallel_for", kvq_parallel_for),
        ("parallel_context", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


class kvq_place(Struct):
    _fields_ = [
        ("layer", ctypes.c_int64),
        ("first_head", ctypes.c_int64),
        ("kv_heads", ctypes.c_int64),
    ]


class kvq_pool(Struct):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("page_stride", ctypes.c_int64),
        ("head_stride", ctypes.c_int64),
        ("page_tokens", ctypes.c_int64),
    ]


class kvq_token_args(Struct):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("k", ctypes.c_void_p),
        ("v", ctypes.c_void_p),
        ("k_token_stride", ctypes.c_int64),
        ("k_head_stride", ctypes.c_int64),
        ("v_token_stride", ctypes.c_int64),
        ("v_head_stride", ctypes.c_int64),
        ("slots", ctypes.c_void_p),
        ("tokens", ctypes.c_int64),
        ("reserved_slot", ctypes.c_int64),
        ("pool", kvq_pool),
        ("place", kvq_place),
        ("flags", ctypes.c_uint32),
        ("execution", kvq_execution),
    ]


class kvq_page_table(Struct):
    _fields_ = [
        ("ids", ctypes.c_void_p),
        ("indptr", ctypes.c_void_p),
        ("row_stride", ctypes.c_int64),
        ("columns", ctypes.c_int64),
    ]


class kvq_windows(Struct):
    _fields_ = [
        ("pool", kvq_pool),
        ("sink", kvq_page_table),
        ("recent", kvq_page_table),
        ("quantized_lengths", ctypes.c_void_p),
    ]


class kvq_commit_args(Struct):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("lengths", ctypes.c_void_p),
        ("from", ctypes.c_void_p),
        ("to", ctypes.c_void_p),
        ("batch", ctypes.c_int64),
        ("step", ctypes.c_int64),
        ("layer", ctypes.c_int64),
        ("execution", kvq_execution),
    ]


class kvq_demote_args(Struct):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("windows", kvq_windows),
        ("to", ctypes.c_void_p),
        ("pool", kvq_pool),
        ("table", kvq_page_table),
        ("batch", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("place", kvq_place),
        ("execution", kvq_execution),
    ]


class kvq_decode_args(Struct):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("q", ctypes.c_void_p),
        ("q_token_stride", ctypes.c_int64),
        ("q_head_stride", ctypes.c_int64),
        ("out", ctypes.c_void_p),
        ("out_token_stride", ctypes.c_int64),
        ("out_head_stride", ctypes.c_int64),
        ("lse", ctypes.c_void_p),
        ("lse_token_stride", ctypes.c_int64),
        ("lse_head_stride", ctypes.c_int64),
        ("q_length", ctypes.c_int64),
        ("q_indptr", ctypes.c_void_p),
        ("q_heads", ctypes.c_int64),
        ("pool", kvq_pool),
        ("table", kvq_page_table),
        ("lengths", ctypes.c_void_p),
        ("batch", ctypes.c_int64),
        ("max_length", ctypes.c_int64),
        ("windows", kvq_windows),
        ("window", ctypes.c_int64),
        ("sinks", ctypes.c_void_p),
        ("scale", ctypes.c_float),
        ("split_tokens", ctypes.c_int64),
        ("place", kvq_place),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_size_t),
        ("flags", ctypes.c_uint32),
        ("execution", kvq_execution),
    ]


class kvq_page_header(Struct):
    _fields_ = [
        ("magic", ctypes.c_char * 8),
        ("version", ctypes.c_uint32),
        ("kv_heads", ctypes.c_uint32),
        ("pages", ctypes.c_uint64),
        ("page_tokens", ctypes.c_uint64),
        ("record_bytes", ctypes.c_uint64),
        ("record_id", ctypes.c_uint8 * 32),
        ("method_id", ctypes.c_uint8 * 32),
        ("layer", ctypes.c_uint32),
        ("first_head", ctypes.c_uint32),
    ]


class kvq_move_args(Struct):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("pool", kvq_pool),
        ("pages", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("place", kvq_place),
        ("execution", kvq_execution),
    ]


# Name -> type of the result, types of the arguments.
FUNCTIONS = {
    "kvq_status_name": (ctypes.c_char_p, [kvq_status]),
    "kvq_last_error": (ctypes.c_char_p, []),
    "kvq_version": (ctypes.c_char_p, []),
    "kvq_interface_version": (ctypes.c_int32, []),
    "kvq_open": (kvq_status, [ctypes.c_char_p, ctypes.POINTER(kvq_open_options), ctypes.POINTER(ctypes.c_void_p)]),
    "kvq_open_memory": (kvq_status, [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(kvq_open_options), ctypes.POINTER(ctypes.c_void_p)]),
    "kvq_load": (kvq_status, [ctypes.c_void_p, ctypes.c_int64]),
    "kvq_close": (None, [ctypes.c_void_p]),
    "kvq_query_model": (kvq_status, [ctypes.c_void_p, ctypes.POINTER(kvq_model)]),
    "kvq_query_layer": (kvq_status, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]),
    "kvq_query": (kvq_status, [ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(kvq_geometry)]),
    "kvq_query_page": (kvq_status, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(kvq_page_geometry)]),
    "kvq_method_text": (ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_int64]),
    "kvq_manifest_text": (ctypes.c_char_p, [ctypes.c_void_p]),
    "kvq_supports": (kvq_status, [ctypes.c_void_p, ctypes.POINTER(kvq_use), ctypes.POINTER(kvq_reason), ctypes.c_int32, ctypes.c_void_p]),
    "kvq_append": (kvq_status, [ctypes.c_void_p, ctypes.POINTER(kvq_token_args)]),
    "kvq_append_window": (kvq_status, [ctypes.c_void_p, ctypes.POINTER(kvq_token_args)]),
    "kvq_dequantize": (kvq_status, [ctypes.c_void_p, ctypes.POINTER(kvq_token_args)]),
    "kvq_commit": (kvq_status, [ctypes.c_void_p, ctypes.POINTER(kvq_commit_args)]),
    "kvq_demote": (kvq_status, [ctypes.c_void_p, ctypes.POINTER(kvq_demote_args)]),
    "kvq_workspace_size": (kvq_status, [ctypes.c_void_p, ctypes.POINTER(kvq_decode_args), ctypes.c_void_p]),
    "kvq_workspace_init": (kvq_status, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(kvq_execution)]),
    "kvq_plan": (kvq_status, [ctypes.c_void_p, ctypes.POINTER(kvq_decode_args)]),
    "kvq_decode": (kvq_status, [ctypes.c_void_p, ctypes.POINTER(kvq_decode_args)]),
    "kvq_export": (kvq_status, [ctypes.c_void_p, ctypes.POINTER(kvq_move_args), ctypes.POINTER(kvq_page_header)]),
    "kvq_import": (kvq_status, [ctypes.c_void_p, ctypes.POINTER(kvq_move_args), ctypes.POINTER(kvq_page_header)]),
}
