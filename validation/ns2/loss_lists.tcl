# One transfer under ns-2 2.35 with the `s001` settings of python/catnip/reference/ns2/README.md, over 10 Mbit/s and
# 100 ms each way, that loses the data packets with the given numbers (from 0, in the order in which they are offered
# to the link). Prints: completion time in s, timeouts, retransmitted packets.
#
#   ns loss_lists.tcl VARIANT PACKETS NUMBER,NUMBER,...

lassign $argv variant packets drops
Agent/TCP set windowInit_ 1
Agent/TCP set syn_ false
Agent/TCP set delay_growth_ false
Agent/TCP set minrto_ 1.0
Agent/TCP set rtxcur_init_ 3.0
Agent/TCP set tcpTick_ 0.01
Agent/TCP set maxrto_ 60
Agent/TCP set rfc2988_ true
Agent/TCP set singledup_ 1
Agent/TCP set bugFix_ss_ 1
Agent/TCP set window_ 24
Agent/TCP set packetSize_ 1433
Agent/TCPSink set SYN_immediate_ack_ true

set ns [new Simulator]
set server [$ns node]
set client [$ns node]
$ns duplex-link $server $client 10Mb 100ms DropTail
$ns queue-limit $server $client 1000
set losses [new ErrorModel/List]
$losses droplist [split $drops ","]
$losses drop-target [new Agent/Null]
$ns lossmodel $losses $server $client

set names(Tahoe) {Agent/TCP Agent/TCPSink}
set names(Reno) {Agent/TCP/Reno Agent/TCPSink}
set names(NewReno) {Agent/TCP/Newreno Agent/TCPSink}
set names(Sack1) {Agent/TCP/Sack1 Agent/TCPSink/Sack1}
set tcp [new [lindex $names($variant) 0]]
set sink [new [lindex $names($variant) 1]]
$ns attach-agent $server $tcp
$ns attach-agent $client $sink
$ns connect $tcp $sink
Agent/TCP instproc done {} {
    global ns tcp
    puts "[format %.6f [$ns now]],[$tcp set nrexmit_],[$tcp set nrexmitpack_]"
    exit 0
}
$ns at 0.0 "$tcp advance $packets"
$ns run
