/* What runs in the kernel: marks, contexts, congestion control. */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#include "mark.h"
#include "context.h"
#include "control.h"

/* As the kernel asks of those who call its functions; the project's own terms hold beside it. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
