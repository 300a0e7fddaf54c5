/* What the programs and the agent share. The agent has these types from here, too. */
#pragma once
#include "../include/catnip.h"
#include "law/bucket.h"
#include "law/http.h"
#include "law/spm.h"
#include "law/tcp_state.h"

enum policy {
	POLICY_SPM = 0,         /* by the place in a document */
	POLICY_TCP_STATE = 1,   /* by the window */
	POLICY_APPLICATION = 2, /* all packets of an application alike */
	POLICY_NONE = 3,        /* no marks: the marker is not attached, the other programs run */
};

#define CLASSES 3
#define LEVELS 3
/* Where the codepoint of a class, 1 to 3, and a level stands. */
#define CODEPOINT(klass, level) (((klass) & 3) * 4 + ((level) & 3))

/* What the agent was told, written before the programs are loaded. Levels count from 0, HIGH, to 2, LOW. */
struct config {
	u64 high_rate, high_depth; /* of a user's buckets: bits per second, bytes; 0: no such bucket */
	u64 med_rate, med_depth;
	u64 network; /* cookie of the agent's network namespace: other sockets are not its business */
	struct spm_rules spm;
	enum policy policy;
	struct thresholds thresholds; /* of the classes 2 and 3; class 1 is always protected, unless they are set */
	u32 sets_thresholds;          /* 1: they are */
	u32 random;                   /* 1: above a threshold its share of the window keeps the level */
	u32 handshake;                /* level of SYN and SYN-ACK */
	u32 repairs;                  /* 1: retransmissions, and what is sent in a recovery, are HIGH */
	u32 acks;                     /* 1: ACKs have the level of the data that they answer */
	u32 http;                     /* 1: documents end where HTTP/1 headers say, if their sender does not */
	u32 washes;                   /* 1: local processes cannot mark by themselves */
	u32 fixed_level;              /* application: level of all, or LEVELS: that of their class */
	u32 usual_class;              /* of a connection that has said none */
	u32 best_class;               /* that a process without privileges may ask for */
	struct thresholds most;       /* the same of thresholds */
	u8 codepoints[16];            /* at CODEPOINT */
};

/* Why a packet has its level. The names are those of the agent's statistics. */
enum reason {
	REASON_HANDSHAKE = 0,
	REASON_END = 1,            /* FIN, RST */
	REASON_RETRANSMISSION = 2,
	REASON_RECOVERY = 3,
	REASON_LEADING = 4,
	REASON_TRAILING = 5,
	REASON_SMALL_WINDOW = 6,
	REASON_WINDOW = 7,         /* by the state of TCP */
	REASON_CLASS = 8,          /* by application */
	REASON_ACK = 9,            /* the level of the data that it answers */
	REASON_NONE = 10,          /* nothing makes it crucial */
	REASON_UNMARKED = 11,      /* not the marker's business: an ACK without data, not TCP, no local socket */
	REASON_WASHED = 12,        /* the same, and a process had marked it by itself */
	REASONS = 13,
};

struct counter {
	u64 packets; /* segments, of those that leave several at once */
	u64 bytes;
	u64 together; /* packets that left with others under one mark */
	u64 demoted;  /* of those that a user's bucket did not let through, counted at the level that they have got */
};

/* A document as its sender has announced it: where it is in the stream. */
struct document {
	u64 begin, end;
};

/* Announced documents that have not begun yet. */
#define ANNOUNCED 4

/* What is known of a connection. Places count the bytes of its stream, without wrapping. */
struct flow {
	u64 begin;   /* of the document */
	u64 end;     /* SPM_UNKNOWN */
	u64 sent;    /* everything before this has passed */
	struct document announced[ANNOUNCED];
	struct http_head head;
	u32 first, last; /* announced documents that are still to begin: numbers, modulo ANNOUNCED */
	u32 rcv_nxt;     /* when the document began */
	u32 is_known;    /* 1: the first data has passed */
	u32 announces;   /* 1: it announces documents, and headers are not read */
	u32 klass;       /* 0: as the policy says */
	u32 has_thresholds;
	struct thresholds thresholds;
	u32 weight;
	u32 has_heard; /* 1: data has come */
	u32 heard;     /* its level, of what came last */
};

/* The buckets of a user. */
struct user {
	struct bucket high, med;
};
