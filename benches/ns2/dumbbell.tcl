# The dumbbell of benches/dumbbell.toml under ns-2 2.35: long NewReno flows through one bottleneck.
#
#   ns dumbbell.tcl FLOWS [SECONDS [SEED [SCHEDULER]]]

source [file join [file dirname [info script]] common.tcl]
lassign $argv flows seconds seed scheduler
if {$seconds eq ""} {set seconds 30}
if {$seed eq ""} {set seed 1}
if {$scheduler eq ""} {set scheduler Calendar}

# As near to the profile `rfc` as ns-2's one-way TCP comes.
Agent/TCP set packetSize_ 1448
Agent/TCP set tcpip_base_hdr_size_ 52
Agent/TCP set window_ 10000
Agent/TCP set windowInit_ 10
Agent/TCP set delay_growth_ false
Agent/TCP set tcpTick_ 0.001
Agent/TCP set rtxcur_init_ 1.0
Agent/TCP set minrto_ 1.0
Agent/TCP set maxrto_ 60
Agent/TCPSink set packetSize_ 52
Agent/TCPSink set SYN_immediate_ack_ true
Agent/TCPSink/DelAck set interval_ 200ms

set net [new Network $scheduler]
set ns [$net ns]
$defaultRNG seed $seed
set left [$ns node]
set right [$ns node]
$net bottleneck $left $right 100Mb 10ms 250
for {set i 0} {$i < $flows} {incr i} {
    set sender [$net host $left 1Gb 1ms 1000]
    set receiver [$net host $right 1Gb 1ms 1000]
    $net count-drops $sender $left
    set tcp($i) [new Agent/TCP/Newreno]
    set sink($i) [new Agent/TCPSink/DelAck]
    $ns attach-agent $sender $tcp($i)
    $ns attach-agent $receiver $sink($i)
    $ns connect $tcp($i) $sink($i)
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp($i)
    $ns at [$defaultRNG uniform 0 1] "$ftp start"
}
set wall_s [$net run $seconds]

set sent 0
set sent_bytes 0
set acks 0
set good_bytes 0
for {set i 0} {$i < $flows} {incr i} {
    incr sent [$tcp($i) set ndatapack_]
    incr sent_bytes [expr {[$tcp($i) set ndatabytes_] + 52 * [$tcp($i) set ndatapack_]}]
    incr acks [$tcp($i) set nackpack_]
    # A sink counts the header with the data.
    incr good_bytes [expr {[$sink($i) set bytes_] / 1500 * 1448}]
}
# Each data packet uses three links unless it is dropped at the second one; each ACK uses three. What is under way at
# the end, a few hundred packets, counts as arrived (data) or not at all (ACKs).
set dropped [$net drops]
set hops [expr {3 * $sent - 2 * $dropped + 3 * $acks}]
set capacity [expr {100e6 / 8 * $seconds}]
report wall_s $wall_s hops $hops events [$net events] peak_kb [peak_kb] simulated_s $seconds \
    dropped $dropped utilization [expr {($sent_bytes - [$net dropped_bytes]) / $capacity}] \
    goodput [expr {$good_bytes / $capacity}]
