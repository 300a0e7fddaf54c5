# Telnet, Web and FTP over a congested tree under ns-2 2.35: a fifth of the network of Noureddine and Tobagi (2002).
# What it is, and what it prints, is in python/catnip/reference/ns2/README.md.
#
#   ns diffserv.tcl NAME VALUE NAME VALUE ...
#
# The names and their defaults are those of `option`.

array set option {
    seed 1 bottleneck_mbps 20 queue DropTail sessions {telnet web ftp reverse} end_s 350 from_s 50 object_mu 8.70
    ample 0 only {} lost_forward {} lost_back {} packets 10 objects {} trace 0 bottleneck_trace {}
}
array set option $argv

# TCP: the defaults of 2.35 but for these. Sizes of packets are on the wire, headers included.
foreach {name value} {
    window_ 64 windowInit_ 1 syn_ false delay_growth_ false rtxcur_init_ 6.0 minrto_ 1.0 tcpTick_ 0.01
    singledup_ 0 useHeaders_ false packetSize_ 1040
} { Agent/TCP set $name $value }
Agent/TCPSink set packetSize_ 40
# Telnet: what is to be sent leaves at once, and each segment is acknowledged at once, with data if there is any.
foreach {name value} {segsize_ 100 segsperack_ 1 interval_ 0 nodelay_ true} { Agent/TCP/FullTcp set $name $value }
foreach {name value} {
    thresh_ 20 maxthresh_ 60 q_weight_ 0.01 linterm_ 10 gentle_ false wait_ true bytes_ false queue_in_bytes_ false
    setbit_ false adaptive_ 0 cautious_ 0 drop_tail_ true mean_pktsize_ 1000
} { Queue/RED set $name $value }

$defaultRNG seed [expr {$option(seed) + 1000}]
set rng [new RNG]
$rng seed $option(seed)
set ns [new Simulator]

# Random numbers

proc uniform {low high} { $::rng uniform $low $high }
proc exponential {mean} { expr {-$mean * log(1.0 - [uniform 0 1])} }
proc pareto {minimum shape} { expr {$minimum / pow(1.0 - [uniform 0 1], 1.0 / $shape)} }
proc lognormal {mu sigma} { expr {exp([$::rng normal $mu $sigma])} }
proc packets_of {bytes} { expr {max(1, int(ceil($bytes / 1000.0)))} }

# The tree

proc wire {a b mbps ms limit {queue DropTail}} {
    if {$::option(ample)} { set limit 100000 }
    $::ns duplex-link $a $b ${mbps}Mb ${ms}ms $queue
    $::ns queue-limit $a $b $limit
    $::ns queue-limit $b $a $limit
}

set core_mbps [expr {$option(ample) ? 100 : 45}]
set first_mbps [expr {$option(ample) ? 100 : 10}]
foreach side {source user} {
    set border($side) [$ns node]
    set second($side) [$ns node]
    wire $second($side) $border($side) $core_mbps 1 250
    for {set i 0} {$i < 8} {incr i} {
        set first($side,$i) [$ns node]
        wire $first($side,$i) $second($side) $first_mbps 1 64
    }
}
wire $border(source) $border(user) $option(bottleneck_mbps) 1 100 $option(queue)
for {set k 0} {$k < 80} {incr k} {
    set rtt_ms [lindex {20 40 80 120 200} [expr {$k % 5}]]
    set host(source,$k) [$ns node]
    set host(user,$k) [$ns node]
    wire $host(source,$k) $first(source,[expr {$k / 10}]) 1.5 1 64
    wire $host(user,$k) $first(user,[expr {$k / 10}]) 1.5 [expr {$rtt_ms / 2 - 6}] 64
}

# A one-way flow: packets from one host to another, with a sender and a receiver that are used again.

Class Arrivals -superclass Application
Arrivals instproc recv {bytes} { arrived [$self set flow] $bytes }

proc new_flow {from to} {
    set flow [new Agent/TCP/Newreno]
    set sink [new Agent/TCPSink]
    $::ns attach-agent $from $flow
    $::ns attach-agent $to $sink
    $::ns connect $flow $sink
    set arrivals [new Arrivals]
    $arrivals attach-agent $sink
    $arrivals set flow $flow
    $arrivals start
    set ::sink($flow) $sink
    return $flow
}

# Sends packets of so many bytes. `sample` is the round trip that the handshake measured, or empty: the timer then
# is the first one of 6 s. `at_end` is called when all of them have arrived, `at_ack` when the sender knows.
proc send {flow count bytes sample at_end at_ack} {
    if {$sample eq ""} {
        array set timer {rtxcur_init_ 6.0 srtt_init_ 0 rttvar_init_ 12}
    } else {
        array set timer [list rtxcur_init_ [expr {3 * $sample}] srtt_init_ $sample rttvar_init_ [expr {$sample / 2}]]
    }
    foreach name [array names timer] { $flow set $name $timer($name) }
    $flow set packetSize_ $bytes
    $flow reset
    $::sink($flow) reset
    set ::missing($flow) [expr {$count * $bytes}]
    set ::at_end($flow) $at_end
    set ::at_ack($flow) $at_ack
    $flow advance $count
}

proc arrived {flow bytes} {
    incr ::missing($flow) -$bytes
    if {$::missing($flow) == 0} { eval $::at_end($flow) }
}

# All is acknowledged: what still arrives belongs to no transfer, at either end. Were the sink to acknowledge a packet that
# was sent twice, a sender with nothing to send would be done once more.
Agent/TCP instproc done {} {
    global ns sink at_ack
    $ns after 0 "$self reset; $sink($self) reset; $at_ack($self)"
}
Agent/TCP/FullTcp instproc done {} {}
proc nothing {args} {}

# Connections. A handshake is a flow of one packet of 40 bytes, whose ACK is the SYN/ACK. Its round trip is what the
# timers of both ends begin with, unless it took a second try.

proc take {pool} {
    global idle
    if {![info exists idle($pool)] || $idle($pool) eq {}} { return "" }
    set taken [lindex $idle($pool) end]
    set idle($pool) [lrange $idle($pool) 0 end-1]
    return $taken
}

# The user of pair k fetches so many packets: SYN, request, answer.
proc fetch {k count at_end} {
    global ns host
    set pair [take web,$k]
    if {$pair eq ""} {
        set pair [list [new_flow $host(user,$k) $host(source,$k)] [new_flow $host(source,$k) $host(user,$k)]]
    }
    lassign $pair ask answer
    send $ask 1 40 "" "set ::heard($ask) \[\$::ns now\]" [list request $k $pair [$ns now] $count $at_end]
}

proc once {sent} {
    set sample [expr {[$::ns now] - $sent}]
    expr {$sample < 6.0 ? $sample : ""}
}

proc request {k pair began count at_end} {
    lassign $pair ask answer
    send $ask 1 340 [once $began] [list answer $k $pair $count $at_end] nothing
}

proc answer {k pair count at_end} {
    lassign $pair ask answer
    send $answer $count 1040 [once $::heard($ask)] $at_end [list put web,$k $pair]
}

proc put {pool what} { lappend ::idle($pool) $what }

# A host sends so many packets to the other: SYN, then data.
proc give {pool from to count at_end} {
    set flow [take $pool]
    if {$flow eq ""} { set flow [new_flow $from $to] }
    send $flow 1 40 "" nothing [list data $pool $flow [$::ns now] $count $at_end]
}

proc data {pool flow began count at_end} {
    send $flow $count 1040 [once $began] $at_end [list put $pool $flow]
}

# Sessions

proc report {what start args} {
    global ns option
    set now [$ns now]
    if {$now >= $option(from_s)} { puts "$what [format %.6f [expr {$now - $start}]] $args" }
}

proc think {k} { $::ns after [uniform 0 5] "page $k" }

proc page {k} {
    global ns start waiting open option
    set start($k) [$ns now]
    set index [lognormal 7.63 1.001]
    set count [expr {min(100, round([pareto 1 2.43]))}]
    set waiting($k) {}
    set bytes [expr {round($index)}]
    for {set i 0} {$i < $count} {incr i} {
        set object [expr {min(1e6, [lognormal $option(object_mu) 1.46])}]
        incr bytes [expr {round($object)}]
        lappend waiting($k) [packets_of $object]
    }
    set open($k) 1
    fetch $k [packets_of $index] "object $k $count $bytes"
}

proc object {k count bytes} {
    global start waiting open
    incr open($k) -1
    while {$open($k) < 4 && $waiting($k) ne {}} {
        set next [lindex $waiting($k) 0]
        set waiting($k) [lrange $waiting($k) 1 end]
        incr open($k)
        fetch $k $next "object $k $count $bytes"
    }
    if {$open($k) == 0} {
        report page $start($k) $count $bytes
        if {!$::option(trace)} { think $k }
    }
}

proc next_file {what k from to} {
    set bytes [expr {round(min(20e6, [pareto 33333 1.2]))}]
    give $what,$k $from $to [packets_of $bytes] "filed $what $k $from $to [$::ns now] $bytes"
}

proc filed {what k from to start bytes} {
    report $what $start $bytes
    $::ns after [exponential 2] "next_file $what $k $from $to"
}

Class Typist -superclass Application
Class Host -superclass Application

# The user's side: the next packet when the echo is there and the pause since the last packet is over.
Typist instproc type {} {
    global ns
    $self instvar agent sent due
    set sent [$ns now]
    set due [expr {$sent + [exponential 0.2]}]
    $agent advance-bytes 100
}
Typist instproc recv {bytes} {
    global ns
    $self instvar sent due
    report echo $sent
    if {$due <= [$ns now]} { $self type } else { $ns at $due "$self type" }
}
Host instproc recv {bytes} {
    $self instvar agent
    $agent advance-bytes 100
}

proc telnet {k} {
    global ns host
    foreach side {user source} {
        set agent($side) [new Agent/TCP/FullTcp/Newreno]
        $ns attach-agent $host($side,$k) $agent($side)
    }
    $ns connect $agent(user) $agent(source)
    $agent(source) listen
    set typist [new Typist]
    set echo [new Host]
    foreach {app side} [list $typist user $echo source] {
        $app attach-agent $agent($side)
        $app set agent $agent($side)
        $app start
    }
    $ns at [uniform 0 5] "$typist type"
}

for {set k 0} {$k < 80 && $option(only) eq ""} {incr k} {
    foreach session $option(sessions) {
        set ends [list $host(source,$k) $host(user,$k)]
        switch $session {
            telnet { telnet $k }
            web { $ns at 0.0 "think $k" }
            ftp { $ns at [uniform 0 5] "next_file ftp $k $ends" }
            reverse { if {$k % 4 == 0} { $ns at [uniform 0 5] "next_file reverse $k [lreverse $ends]" } }
        }
    }
}

# One page, one file or one Telnet session alone, of one pair: "page 3". The packets lost are those that the
# bottleneck is offered in each direction, from 0.
if {$option(only) ne ""} {
    set option(from_s) 0
    lassign $option(only) what k
    foreach {from to lost} [list source user $option(lost_forward) user source $option(lost_back)] {
        if {$lost ne ""} {
            set losses [new ErrorModel/List]
            $losses droplist $lost
            $losses drop-target [new Agent/Null]
            $ns lossmodel $losses $border($from) $border($to)
        }
        if {$option(trace)} { $ns trace-queue $host($from,$k) $first($from,[expr {$k / 10}]) stdout }
    }
    set option(sessions) {}
    switch $what {
        page {
            set start($k) 0.0
            set open($k) 1
            set waiting($k) $option(objects)
            set option(trace) 1
            $ns at 0.0 [list fetch $k $option(packets) "object $k [llength $option(objects)] 0"]
        }
        file {
            set ends [list $host(source,$k) $host(user,$k)]
            $ns at 0.0 [list give only {*}$ends $option(packets) "report file 0.0; exit 0"]
        }
        telnet { telnet $k }
    }
}

# Queues of the bottleneck, in both directions

foreach {name from to} {forward source user back user source} {
    set monitor($name) [$ns monitor-queue $border($from) $border($to) ""]
}
if {$option(bottleneck_trace) ne ""} {
    $ns trace-queue $border(source) $border(user) [open $option(bottleneck_trace) w]
}

proc counts {name} {
    set counts {}
    foreach counter {parrivals_ pdrops_ bdepartures_} {
        lappend counts [expr {round([$::monitor($name) set $counter])}]
    }
    return $counts
}

proc since {name} {
    set differences {}
    foreach now [counts $name] before $::before($name) { lappend differences [expr {$now - $before}] }
    return $differences
}

proc finish {} {
    foreach name {forward back} { puts "$name [since $name]" }
    exit 0
}

$ns at $option(from_s) { foreach name {forward back} { set before($name) [counts $name] } }
$ns at $option(end_s) finish
$ns run
