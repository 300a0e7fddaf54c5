/* Incremental parser of HTTP/1 response headers (RFC 9112), which finds the end of a response. Segments may end at any byte. Twin: crates/wire/src/http.rs, which stores the whole line instead. */
#pragma once
#include "types.h"

#define HTTP_PREFIX "HTTP/1."
#define HTTP_PREFIX_LEN 7
#define HTTP_LENGTH "content-length:"
#define HTTP_LENGTH_LEN 15
#define HTTP_CODING "transfer-encoding:"
#define HTTP_CODING_LEN 18
/* Longest header that is read, and longest line that may specify a length. */
#define HTTP_MAX_HEADER_LEN (64U << 10)
#define HTTP_MAX_LINE 48
#define HTTP_UNREADABLE 0xffff
#define HTTP_NONE U64_MAX

enum http_value { HTTP_BEFORE = 0, HTTP_DIGITS = 1, HTTP_AFTER = 2, HTTP_BAD = 3 };

struct http_head {
	u64 length;   /* Content-Length, or HTTP_NONE */
	u64 number;   /* number in the line so far */
	u32 len;      /* bytes of the header so far */
	u32 line_len; /* bytes of the line so far */
	u16 status;   /* 0 before the end of the first line */
	u16 digits;   /* digits of the status so far: their number times 1000, plus their value */
	u8 is_ambiguous; /* the length is missing or invalid */
	u8 is_over;   /* the header has ended, or is not an HTTP header */
	u8 is_blank;  /* the line is blank so far */
	u8 can_be_length, can_be_coding; /* the line can be this field */
	u8 value;     /* enum http_value */
	u16 pad;
};

LAW void http_begin_line(struct http_head *head)
{
	head->number = 0;
	head->line_len = 0;
	head->is_blank = 1;
	head->can_be_length = 1;
	head->can_be_coding = 1;
	head->value = HTTP_BEFORE;
}

LAW void http_init(struct http_head *head)
{
	head->length = HTTP_NONE;
	head->len = 0;
	head->status = 0;
	head->digits = 0;
	head->is_ambiguous = 0;
	head->is_over = 0;
	head->pad = 0;
	http_begin_line(head);
}

/* Makes the length of the body unknown, because a part of the header is missing. */
LAW void http_lose(struct http_head *head)
{
	http_init(head);
	head->is_ambiguous = 1;
	head->is_over = 1;
}

LAW bool http_is_space(u8 byte)
{
	return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r' || byte == '\f';
}

LAW bool http_is_digit(u8 byte)
{
	return byte >= '0' && byte <= '9';
}

LAW u8 http_lower(u8 byte)
{
	return byte >= 'A' && byte <= 'Z' ? byte + 32 : byte;
}

/* Reads a byte of the value of Content-Length. */
LAW void http_read_value(struct http_head *head, u8 byte)
{
	if (http_is_space(byte)) {
		if (head->value == HTTP_DIGITS)
			head->value = HTTP_AFTER;
	} else if (!http_is_digit(byte) || head->value >= HTTP_AFTER || head->number > (HTTP_NONE - 10) / 10) {
		head->value = HTTP_BAD;
	} else {
		head->number = 10 * head->number + (byte - '0');
		head->value = HTTP_DIGITS;
	}
}

/* Handles the end of a line. True if the header also ends. */
LAW bool http_end_line(struct http_head *head)
{
	if (head->status == 0) {
		u16 value = head->digits % 1000;
		bool is_readable = head->digits / 1000 == 3;
		/* The end of a response with an unreadable status is unknown. */
		head->is_ambiguous = !is_readable;
		head->status = is_readable ? (value == 0 ? 1 : value) : HTTP_UNREADABLE;
		return false;
	}
	bool is_complete_line = head->line_len <= HTTP_MAX_LINE;
	if (is_complete_line && head->is_blank)
		return true;
	if (head->can_be_length) {
		bool is_number = is_complete_line && (head->value == HTTP_DIGITS || head->value == HTTP_AFTER);
		u64 length = is_number ? head->number : HTTP_NONE;
		if (!is_number || (head->length != HTTP_NONE && head->length != length))
			head->is_ambiguous = 1;
		head->length = length;
	}
	if (head->can_be_coding)
		head->is_ambiguous = 1;
	return false;
}

/* Reads the next byte. True if the header has ended, or is not an HTTP header; *body is then the length of the body, or HTTP_NONE. */
LAW bool http_read(struct http_head *head, u8 byte, u64 *body)
{
	u32 at = head->line_len;
	head->len++;
	head->line_len++;
	*body = HTTP_NONE;
	if ((head->status == 0 && at < HTTP_PREFIX_LEN && byte != (u8)HTTP_PREFIX[at]) || head->len > HTTP_MAX_HEADER_LEN) {
		head->is_over = 1;
		return true;
	}
	if (head->status == 0) {
		if (at >= 9 && at < 12 && http_is_digit(byte) && head->digits / 1000 == at - 9)
			head->digits = head->digits + 1000 + (head->digits % 1000) * 9 + (byte - '0');
	} else {
		u8 lower = http_lower(byte);
		if (at < HTTP_LENGTH_LEN) {
			if (lower != (u8)HTTP_LENGTH[at])
				head->can_be_length = 0;
		} else if (at < HTTP_MAX_LINE && head->can_be_length) {
			http_read_value(head, byte);
		}
		if (at < HTTP_CODING_LEN && lower != (u8)HTTP_CODING[at])
			head->can_be_coding = 0;
	}
	if (!http_is_space(byte))
		head->is_blank = 0;
	if (byte != '\n')
		return false;
	bool is_end = http_end_line(head);
	http_begin_line(head);
	if (!is_end)
		return false;
	if (head->status >= 100 && head->status < 200 && head->status != 101) {
		/* Interim response, which is followed by another response. */
		http_init(head);
		return false;
	}
	if (head->status == 204 || head->status == 304)
		*body = 0;
	else if (head->status != 101 && !head->is_ambiguous)
		*body = head->length;
	head->is_over = 1;
	return true;
}

#define HTTP_WORD 8
/* Number of bytes that http_step may load. */
#define HTTP_AHEAD (4 * HTTP_WORD)

/* Number of bytes before the first line feed in the next HTTP_WORD bytes. */
LAW u32 http_before_line_feed(const u8 *bytes)
{
	typedef u64 __attribute__((may_alias)) word;
	/* Processors and the kernel's BPF load words from any address. */
	u64 each = 0x0101010101010101, at = *(const word *)bytes ^ each * '\n';
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	at = __builtin_bswap64(at);
#endif
	/* The lowest bit that is left is that of the first byte that is 0. */
	u64 found = (at - each) & ~at & each << 7;
	u32 before = 0;
	if (!found)
		return HTTP_WORD;
	if (!(u32)found) {
		before += 4;
		found >>= 32;
	}
	if (!(u16)found) {
		before += 2;
		found >>= 16;
	}
	return before + !(u8)found;
}

/* Reads the next byte, or the next ones of a line of which only the end matters: at most HTTP_AHEAD of the `len` bytes, of which there is at
 * least one. Returns their number; *is_over and *body are the results of http_read. */
LAW u32 http_step(struct http_head *head, const u8 *bytes, u64 len, bool *is_over, u64 *body)
{
	u32 read = 0;
	if (head->status && !head->can_be_length && !head->can_be_coding && !head->is_blank && head->len < HTTP_MAX_HEADER_LEN - HTTP_AHEAD)
		for (u32 i = 0; i < HTTP_AHEAD / HTTP_WORD && read == HTTP_WORD * i; i++)
			read += http_before_line_feed(bytes + HTTP_WORD * i);
	if (read > len)
		read = len;
	if (read == 0) {
		*is_over = http_read(head, bytes[0], body);
		return 1;
	}
	head->len += read;
	head->line_len += read;
	*is_over = false;
	return read;
}
