# The 100 clients of the scenario catnip-e4 (Reno over DropTail) under ns-2 2.35, with the `era` settings of
# python/catnip/reference/ns2/README.md. With PAGES, the name of a file, the time of every page goes there as CSV.
#
#   ns web.tcl [SEED [SCHEDULER [AGENTS [PAGES]]]]
#
# AGENTS is `fresh`, a new pair of agents per object, or `pooled`: a pair is reset when its object is done, and used
# again. It is the same TCP, but to make a pair takes ns-2 two or three milliseconds, to reset it ten microseconds.

source [file join [file dirname [info script]] common.tcl]
lassign $argv seed scheduler agents pages_file
if {$seed eq ""} {set seed 1}
if {$agents eq ""} {set agents fresh}
if {$scheduler eq ""} {set scheduler Calendar}

Agent/TCP set packetSize_ 512
Agent/TCP set useHeaders_ false
Agent/TCP set syn_ false
Agent/TCP set delay_growth_ false
Agent/TCP set window_ 20
Agent/TCP set windowInit_ 1
Agent/TCP set rtxcur_init_ 6.0
Agent/TCP set tcpTick_ 0.1
Agent/TCP set minrto_ 0
Agent/TCP set maxrto_ 100000
Agent/TCP set rfc2988_ false
Agent/TCP set singledup_ 0
Agent/TCP set precisionReduce_ false
Agent/TCP set bugfix_ss_ 0
Agent/TCP set exitFastRetrans_ false
Agent/TCPSink set SYN_immediate_ack_ false

set segment 512
set max_connections 4
set images_after [expr {2 * $segment}]
set think_s 40

# The objects of each page as multiples of a segment, the HTML first.
proc read_pages {path} {
    global segment pages
    set file [open $path]
    gets $file
    while {[gets $file line] >= 0} {
        lassign [split $line ,] page index kind bytes
        lappend pages($page) [expr {($bytes + $segment - 1) / $segment * $segment}]
    }
    close $file
}

# Someone who fetches each page once, in random order, and thinks before each.
Class Client

Client instproc init {server host} {
    global pages users
    $self instvar server_ host_ order_ idle_
    set server_ $server
    set host_ $host
    set idle_ {}
    set keys {}
    foreach page [array names pages] {
        lappend keys [list [$users uniform 0 1] $page]
    }
    set order_ {}
    foreach key [lsort -real -index 0 $keys] {
        lappend order_ [lindex $key 1]
    }
    $self think
}

Client instproc think {} {
    global ns users think_s
    $ns at [expr {[$ns now] + $think_s * [$users exponential]}] "$self begin"
}

Client instproc begin {} {
    global ns pages
    $self instvar order_ page_ start_ objects_ opened_ complete_ images_known_
    set page_ [lindex $order_ 0]
    set order_ [lrange $order_ 1 end]
    set start_ [$ns now]
    set objects_ $pages($page_)
    set opened_ 0
    set complete_ 0
    set images_known_ 0
    $self open_next
}

Client instproc open_next {} {
    global segment
    $self instvar objects_ opened_ idle_
    set bytes [lindex $objects_ $opened_]
    if {[llength $idle_]} {
        set fetch [lindex $idle_ end]
        set idle_ [lrange $idle_ 0 end-1]
    } else {
        set fetch [$self new_fetch]
    }
    $fetch expect $opened_ $bytes
    incr opened_
    [$fetch set tcp_] advance [expr {$bytes / $segment}]
}

Client instproc new_fetch {} {
    global ns
    $self instvar server_ host_
    set tcp [new Agent/TCP/Reno]
    set sink [new Agent/TCPSink]
    $ns attach-agent $server_ $tcp
    $ns attach-agent $host_ $sink
    $ns connect $tcp $sink
    $tcp reset
    $sink reset
    return [new Fetch $self $tcp $sink]
}

# All data of a transfer have been acknowledged.
Client instproc release {fetch} {
    global ns agents
    $self instvar server_ host_ idle_
    set tcp [$fetch set tcp_]
    set sink [$fetch set sink_]
    # This also stops the timer, which otherwise keeps running.
    $tcp reset
    if {$agents eq "pooled"} {
        $sink reset
        lappend idle_ $fetch
    } else {
        $ns detach-agent $server_ $tcp
        $ns detach-agent $host_ $sink
        delete $fetch
        delete $sink
        delete $tcp
    }
}

Client instproc open_images {} {
    global max_connections
    $self instvar objects_ opened_ complete_ images_known_
    set images_known_ 1
    while {$opened_ < [llength $objects_] && $opened_ - $complete_ < $max_connections} {
        $self open_next
    }
}

Client instproc on_complete {} {
    global ns times
    $self instvar page_ start_ order_ objects_ complete_
    incr complete_
    if {$complete_ < [llength $objects_]} {
        $self open_images
        return
    }
    lappend times [list $page_ [expr {[$ns now] - $start_}]]
    if {[llength $order_]} {
        $self think
    }
}

# One end of it is at the client and hears of data in order.
Class Fetch -superclass Application

Fetch instproc init {client tcp sink} {
    $self next
    $self instvar client_ tcp_ sink_
    set client_ $client
    set tcp_ $tcp
    set sink_ $sink
    $tcp set fetch_ $self
    $self attach-agent $sink
    # This makes it look for `recv`.
    $self start
}

Fetch instproc expect {number bytes} {
    $self instvar number_ left_ received_
    set number_ $number
    set left_ $bytes
    set received_ 0
}

Fetch instproc recv {bytes} {
    global images_after
    $self instvar client_ number_ left_ received_
    set before $received_
    incr received_ $bytes
    incr left_ -$bytes
    if {$left_ == 0} {
        $client_ on_complete
    } elseif {$number_ == 0 && $before < $images_after && $received_ >= $images_after} {
        $client_ open_images
    }
}

# ns-2 calls this in the middle of its work on the last ACK; the agent must stay as it is until that is over.
Agent/TCP instproc done {} {
    global ns
    $self instvar fetch_
    $ns at [$ns now] "finish $fetch_"
}

proc finish {fetch} {
    global net sent acks left
    set tcp [$fetch set tcp_]
    incr sent [$tcp set ndatapack_]
    incr acks [$tcp set nackpack_]
    [$fetch set client_] release $fetch
    if {[incr left -1] == 0} {
        $net stop
    }
}

read_pages [file join [file dirname [info script]] ../../python/catnip/papers/catnip/reference/catnip_pages.csv]
set net [new Network $scheduler]
set ns [$net ns]
$defaultRNG seed $seed
set users [new RNG]
set router_c [$ns node]
set router_s [$ns node]
$net bottleneck $router_s $router_c 1.5Mb 5ms 10
set clients 100
set left 0
foreach page [array names pages] {
    incr left [expr {$clients * [llength $pages($page)]}]
}
set connections $left
set sent 0
set acks 0
for {set i 0} {$i < $clients} {incr i} {
    if {$i % 10 == 0} {
        set server [$net host $router_s 10Mb 4.6ms 50]
    }
    new Client $server [$net host $router_c 10Mb 4.6ms 50]
}
set wall_s [$net run 100000]

set dropped [$net drops]
# Nothing is dropped elsewhere. Data use three links, dropped data one, ACKs three.
set hops [expr {3 * $sent - 2 * $dropped + 3 * $acks}]
if {$pages_file ne ""} {
    set file [open $pages_file w]
    puts $file "page,time_s"
    foreach time $times {
        puts $file [join $time ,]
    }
    close $file
}
report wall_s $wall_s hops $hops events [$net events] peak_kb [peak_kb] simulated_s [$ns now] \
    sent $sent dropped $dropped loss_pct [expr {100.0 * $dropped / $sent}] connections $connections
