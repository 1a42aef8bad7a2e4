#!/usr/bin/env python3
"""profile.py - what `perf report --stdio -s dso,sym` printed, on standard input, as a few lines:
the share of each kind of work, and the symbols that had the most."""
import re
import sys

# The first one that matches counts.
KINDS = [
    ("copies in user space", r"libc\S* .*(memmove|memcpy|memset)|nx_copy|copy_near|copy_past|nx_(stream|lines)_|nexar.*\bput\b"),
    ("reducing", r"nx_reduce|reduce_|ompi_op|mca_op|MPIR_(SUM|Sum)|_sum_"),
    ("the kernel's copy", r"\[k\] _?_?(raw_)?copy_(to|from|user|mc|page)|\[k\] _copy_|rep_movs|memcpy_orig"),
    ("finding and pinning pages", r"user_pages|follow_page|_pte|pte_|gup|pin_user|process_vm|vm_normal|node_page_state|"
     r"try_grab|folio|mod_.*_state|__pmd|pud|p4d|mark_page"),
    ("page faults, mapping, clearing", r"clear_page|fault|mmap|munmap|unmap|zap_|charge|alloc_pages|get_page_from|free_pages|lruvec|tlb"),
    ("giving up the core", r"sched|futex|switch|try_to_wake|pick_next|update_curr|enqueue|dequeue|update_rq|rq_clock|avg|vruntime|yield"),
    ("the kernel besides", r"\[k\]"),
    ("the clock", r"vdso"),
    ("nexar: waiting", r"nexar.*(spin|wait|stay_or_sleep|ask_hooks|reads_ready|poll|idle|look|nx_now|nx_clock)"),
    ("nexar besides", r"nexar"),
    ("the peer's own", r"."),
]
LINE = re.compile(r"^\s*([0-9.]+)%\s+(\S+)\s+(\[[.k]\].*?)\s*$")

shares, tops = {}, []
for line in sys.stdin:
    found = LINE.match(line)
    if not found:
        continue
    share, dso, symbol = float(found[1]), found[2], found[3]
    kind = next(name for name, pattern in KINDS if re.search(pattern, f"{dso} {symbol}"))
    shares[kind] = shares.get(kind, 0) + share
    tops.append((share, symbol[4:]))
text = [f"{share:.0f} % {kind}" for kind, share in sorted(shares.items(), key=lambda e: -e[1]) if share >= 1]
print("    " + ", ".join(text))
print("    most: " + ", ".join(f"{name} {share:.0f} %" for share, name in sorted(tops, reverse=True)[:8]))
