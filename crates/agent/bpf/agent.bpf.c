/* Kernel programs of the agent: packet marks, contexts of applications, congestion control. */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#include "mark.h"
#include "context.h"
#include "control.h"

/* License for calls of kernel functions. The license terms of the project remain valid. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
