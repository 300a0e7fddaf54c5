# One transfer under ns-2 2.35, packet by packet. The settings are those of python/catnip/reference/ns2/README.md; the data
# packets with the given numbers (from 0, in the order in which they are offered to the link) are lost.
#
#   ns transfers.tcl PRESET VARIANT DELAYED_ACK WINDOW PACKETS QUEUE_LIMIT RATE_MBPS DELAY_MS LOST,LOST,... SEED
#
# Prints ns-2's trace of both queues with the changes of cwnd_ in between, then `phase`: where in a tick of its clock the
# connection begins, which is the second number that ns-2 draws.

lassign $argv preset variant delayed window packets limit rate_mbps delay_ms lost seed

Agent/TCP set windowInit_ 1
Agent/TCP set syn_ false
Agent/TCP set delay_growth_ false
Agent/TCP set window_ $window
set size 1000
if {$preset eq "era"} {
    foreach {name value} {
        rtxcur_init_ 6.0 tcpTick_ 0.1 minrto_ 0 maxrto_ 100000 rfc2988_ false singledup_ 0 useHeaders_ false
        precisionReduce_ false bugfix_ss_ 0 exitFastRetrans_ false timerfix_ true
    } { Agent/TCP set $name $value }
    Agent/TCPSink set SYN_immediate_ack_ false
} else {
    foreach {name value} {
        rtxcur_init_ 3.0 tcpTick_ 0.01 minrto_ 0.2 maxrto_ 60 rfc2988_ true singledup_ 1 bugfix_ss_ 1
    } { Agent/TCP set $name $value }
    Agent/TCPSink set SYN_immediate_ack_ true
    if {$preset eq "s001"} {
        Agent/TCP set minrto_ 1.0
        set size 1433
    }
}
Agent/TCP set packetSize_ $size

$defaultRNG seed $seed
set ns [new Simulator]
set server [$ns node]
set client [$ns node]
$ns duplex-link $server $client ${rate_mbps}Mb ${delay_ms}ms DropTail
$ns queue-limit $server $client $limit
$ns queue-limit $client $server 1000
$ns trace-queue $server $client stdout
$ns trace-queue $client $server stdout
set losses [new ErrorModel/List]
$losses droplist [split $lost ","]
$losses drop-target [$ns create-trace Drop stdout $server $client]
$ns lossmodel $losses $server $client

array set agents {Tahoe Agent/TCP Reno Agent/TCP/Reno NewReno Agent/TCP/Newreno Sack1 Agent/TCP/Sack1}
set sink_name "Agent/TCPSink[expr {$variant eq "Sack1" ? "/Sack1" : ""}][expr {$delayed ? "/DelAck" : ""}]"
set tcp [new $agents($variant)]
set sink [new $sink_name]
if {$delayed} { $sink set interval_ 200ms }
$ns attach-agent $server $tcp
$ns attach-agent $client $sink
$ns connect $tcp $sink
$tcp attach stdout
$tcp tracevar cwnd_
Agent/TCP instproc done {} {
    $::defaultRNG seed $::seed
    $::defaultRNG uniform 0 1
    puts "phase [$::defaultRNG uniform 0 1]"
    exit 0
}
$ns at 0.0 "$tcp advance $packets"
$ns run
