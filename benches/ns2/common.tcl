# What the ns-2 programs of this benchmark share.

# ns-2 carries the headers of all its protocols in every packet unless it is told which ones a script needs; its
# manual advises this for large runs, and it makes them faster and smaller.
remove-all-packet-headers
add-packet-header IP TCP Flags

# A network of droptail links whose drops are counted.
Class Network

# `scheduler`: Calendar (ns-2's default), Heap, List, Splay or Map.
Network instproc init {scheduler} {
    $self instvar ns_ drops_
    set ns_ [new Simulator]
    $ns_ use-scheduler $scheduler
    # The default, all-pairs shortest paths, takes a minute and half a gigabyte for 2000 nodes.
    $ns_ rtproto Manual
    set drops_ [new QueueMonitor]
}

Network instproc ns {} {
    $self instvar ns_
    return $ns_
}

# Two links between `a` and `b`. A queue of `limit` holds the packet in transmission and limit - 1 others.
Network instproc link {a b rate delay limit} {
    $self instvar ns_
    $ns_ duplex-link $a $b $rate $delay DropTail
    $ns_ queue-limit $a $b $limit
    $ns_ queue-limit $b $a $limit
}

# A host whose only link goes to `router`.
Network instproc host {router rate delay limit} {
    $self instvar ns_
    set host [$ns_ node]
    $self link $host $router $rate $delay $limit
    [$host get-module Manual] add-route-to-adj-node -default $router
    [$router get-module Manual] add-route-to-adj-node $host
    return $host
}

# Two routers; each sends to the other what is for none of its own hosts.
Network instproc bottleneck {a b rate delay limit} {
    $self link $a $b $rate $delay $limit
    [$a get-module Manual] add-route-to-adj-node -default $b
    [$b get-module Manual] add-route-to-adj-node -default $a
    $self count-drops $a $b
}

# Counts what the queue from `a` to `b` drops; packets that pass do not notice.
Network instproc count-drops {a b} {
    $self instvar ns_ drops_
    set counter [new SnoopQueue/Drop]
    $counter set-monitor $drops_
    set head [[$ns_ link $a $b] set drophead_]
    $counter target [$head target]
    $head target $counter
}

Network instproc drops {} {
    $self instvar drops_
    return [$drops_ set pdrops_]
}

Network instproc dropped_bytes {} {
    $self instvar drops_
    return [$drops_ set bdrops_]
}

# Runs until `end` or until `stop` is called; returns the seconds that the event loop took.
Network instproc run {end} {
    $self instvar ns_ began_ wall_ events_
    # Both are events, so that routing and the reset of all agents, which come before the first event, do not count.
    $ns_ at 0.0 "$self set began_ \[clock microseconds\]"
    $ns_ at $end "$self stop"
    $ns_ run
    return $wall_
}

Network instproc stop {} {
    $self instvar ns_ began_ wall_ events_
    set wall_ [expr {([clock microseconds] - $began_) / 1e6}]
    # The number of an event is how many were scheduled before it.
    set events_ [$ns_ at [$ns_ now] ""]
    $ns_ halt
}

Network instproc events {} {
    $self instvar events_
    return $events_
}

# Peak resident memory of this process.
proc peak_kb {} {
    set file [open /proc/self/status]
    set text [read $file]
    close $file
    regexp {VmHWM:\s*(\d+)} $text -> kb
    return $kb
}

# Prints a JSON object; the values are numbers.
proc report {args} {
    set parts {}
    foreach {name value} $args {
        lappend parts "\"$name\": $value"
    }
    puts "{[join $parts {, }]}"
}
