/work/main/examples/custom-policy/target/debug/deps/catnip_net-8bfef05be14129af.d: /work/main/crates/net/src/lib.rs /work/main/crates/net/src/calendar.rs /work/main/crates/net/src/fabric.rs /work/main/crates/net/src/jitter/mod.rs /work/main/crates/net/src/jitter/exponential.rs /work/main/crates/net/src/jitter/normal.rs /work/main/crates/net/src/jitter/uniform.rs /work/main/crates/net/src/mark/mod.rs /work/main/crates/net/src/mark/spm.rs /work/main/crates/net/src/packet.rs /work/main/crates/net/src/port.rs /work/main/crates/net/src/queue/mod.rs /work/main/crates/net/src/queue/catnip.rs /work/main/crates/net/src/queue/catnip_red.rs /work/main/crates/net/src/queue/drop_tail.rs /work/main/crates/net/src/queue/fifo.rs /work/main/crates/net/src/queue/places.rs /work/main/crates/net/src/queue/red.rs /work/main/crates/net/src/queue/victim.rs /work/main/crates/net/src/shape/mod.rs /work/main/crates/net/src/shape/trace.rs /work/main/crates/net/src/stage/mod.rs /work/main/crates/net/src/stage/bernoulli.rs /work/main/crates/net/src/stage/by_priority.rs /work/main/crates/net/src/stage/gilbert_elliott.rs /work/main/crates/net/src/stage/packet_list.rs /work/main/crates/net/src/topology.rs /work/main/crates/net/src/wire.rs

/work/main/examples/custom-policy/target/debug/deps/libcatnip_net-8bfef05be14129af.rmeta: /work/main/crates/net/src/lib.rs /work/main/crates/net/src/calendar.rs /work/main/crates/net/src/fabric.rs /work/main/crates/net/src/jitter/mod.rs /work/main/crates/net/src/jitter/exponential.rs /work/main/crates/net/src/jitter/normal.rs /work/main/crates/net/src/jitter/uniform.rs /work/main/crates/net/src/mark/mod.rs /work/main/crates/net/src/mark/spm.rs /work/main/crates/net/src/packet.rs /work/main/crates/net/src/port.rs /work/main/crates/net/src/queue/mod.rs /work/main/crates/net/src/queue/catnip.rs /work/main/crates/net/src/queue/catnip_red.rs /work/main/crates/net/src/queue/drop_tail.rs /work/main/crates/net/src/queue/fifo.rs /work/main/crates/net/src/queue/places.rs /work/main/crates/net/src/queue/red.rs /work/main/crates/net/src/queue/victim.rs /work/main/crates/net/src/shape/mod.rs /work/main/crates/net/src/shape/trace.rs /work/main/crates/net/src/stage/mod.rs /work/main/crates/net/src/stage/bernoulli.rs /work/main/crates/net/src/stage/by_priority.rs /work/main/crates/net/src/stage/gilbert_elliott.rs /work/main/crates/net/src/stage/packet_list.rs /work/main/crates/net/src/topology.rs /work/main/crates/net/src/wire.rs

/work/main/crates/net/src/lib.rs:
/work/main/crates/net/src/calendar.rs:
/work/main/crates/net/src/fabric.rs:
/work/main/crates/net/src/jitter/mod.rs:
/work/main/crates/net/src/jitter/exponential.rs:
/work/main/crates/net/src/jitter/normal.rs:
/work/main/crates/net/src/jitter/uniform.rs:
/work/main/crates/net/src/mark/mod.rs:
/work/main/crates/net/src/mark/spm.rs:
/work/main/crates/net/src/packet.rs:
/work/main/crates/net/src/port.rs:
/work/main/crates/net/src/queue/mod.rs:
/work/main/crates/net/src/queue/catnip.rs:
/work/main/crates/net/src/queue/catnip_red.rs:
/work/main/crates/net/src/queue/drop_tail.rs:
/work/main/crates/net/src/queue/fifo.rs:
/work/main/crates/net/src/queue/places.rs:
/work/main/crates/net/src/queue/red.rs:
/work/main/crates/net/src/queue/victim.rs:
/work/main/crates/net/src/shape/mod.rs:
/work/main/crates/net/src/shape/trace.rs:
/work/main/crates/net/src/stage/mod.rs:
/work/main/crates/net/src/stage/bernoulli.rs:
/work/main/crates/net/src/stage/by_priority.rs:
/work/main/crates/net/src/stage/gilbert_elliott.rs:
/work/main/crates/net/src/stage/packet_list.rs:
/work/main/crates/net/src/topology.rs:
/work/main/crates/net/src/wire.rs:
