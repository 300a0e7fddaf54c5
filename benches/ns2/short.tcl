# Short flows under ns-2 2.35, one after the other: 36 packets of 1433 B + 40 B, 10 Mbit/s, 100 ms each way, 5 % of the
# data packets lost, the `s001` settings of python/catnip/reference/ns2/README.md.
#
#   ns short.tcl [AGENTS [FLOWS [SEED [SCHEDULER]]]]
#
# AGENTS is `ready`: a pair of agents per flow, made before the clock is started, or `fresh`: made, and deleted, with
# the clock running.

source [file join [file dirname [info script]] common.tcl]
lassign $argv agents flows seed scheduler
if {$agents eq ""} {set agents ready}
if {$flows eq ""} {set flows 1000}
if {$seed eq ""} {set seed 1}
if {$scheduler eq ""} {set scheduler Calendar}

Agent/TCP set packetSize_ 1433
Agent/TCP set window_ 24
Agent/TCP set windowInit_ 1
Agent/TCP set syn_ false
Agent/TCP set delay_growth_ false
Agent/TCP set tcpTick_ 0.01
Agent/TCP set rtxcur_init_ 3.0
Agent/TCP set minrto_ 1.0
Agent/TCP set maxrto_ 60
Agent/TCPSink set SYN_immediate_ack_ true

set net [new Network $scheduler]
set ns [$net ns]
$defaultRNG seed $seed
set server [$ns node]
set client [$ns node]
$net link $server $client 10Mb 100ms 1000
[$server get-module Manual] add-route-to-adj-node -default $client
[$client get-module Manual] add-route-to-adj-node -default $server
set losses [new ErrorModel]
$losses set rate_ 0.05
$losses ranvar [new RandomVariable/Uniform]
$losses drop-target [new Agent/Null]
$ns lossmodel $losses $server $client

proc new_pair {} {
    global ns server client
    set tcp [new Agent/TCP/Reno]
    set sink [new Agent/TCPSink]
    $ns attach-agent $server $tcp
    $ns attach-agent $client $sink
    $ns connect $tcp $sink
    $tcp reset
    $sink reset
    $tcp set sink_ $sink
    return $tcp
}

proc start_next {} {
    global ns agents ready flow
    if {$agents eq "ready"} {
        set tcp $ready($flow)
    } else {
        set tcp [new_pair]
    }
    $tcp set began_ [$ns now]
    $tcp advance 36
}

Agent/TCP instproc done {} {
    global ns
    $ns at [$ns now] "finish $self"
}

proc finish {tcp} {
    global ns net server client agents flow flows sent acks seconds
    incr sent [$tcp set ndatapack_]
    incr acks [$tcp set nackpack_]
    set seconds [expr {$seconds + [$ns now] - [$tcp set began_]}]
    # This also stops its timer, which otherwise keeps running.
    $tcp reset
    if {$agents eq "fresh"} {
        set sink [$tcp set sink_]
        $ns detach-agent $server $tcp
        $ns detach-agent $client $sink
        delete $sink
        delete $tcp
    }
    if {[incr flow] < $flows} {
        start_next
    } else {
        $net stop
    }
}

set flow 0
set sent 0
set acks 0
set seconds 0
if {$agents eq "ready"} {
    for {set i 0} {$i < $flows} {incr i} {
        set ready($i) [new_pair]
    }
}
$ns at 0.0 start_next
set wall_s [$net run 10000000]
# Losses are before the queue: what is lost uses no link. Data and ACKs use one.
set lost [expr {$sent - $acks}]
report wall_s $wall_s hops [expr {2 * $acks}] events [$net events] peak_kb [peak_kb] simulated_s [$ns now] \
    flows $flows sent $sent loss_pct [expr {100.0 * $lost / $sent}] mean_s [expr {$seconds / $flows}]
