"""The columns of the tables that the kernels of this package share, and the numbers that they answer with.

Every table is a C-ordered int64 array with a row per packet, connection, frame and so on. The numbers are compiled
into the kernels, whose cache therefore sees this file too (``wire/_jit.py``).
"""

from __future__ import annotations

# ------------------------------------------------------------------------------------------------ packets
# A row is a TCP segment with payload. OFFSET counts the bytes of a direction's stream, from wherever its first seen
# packet was; POSITION is the payload's position in the window's buffer. DIRECTION is connection * 2 + side.
TIME, DIRECTION, OFFSET, POSITION, CAPTURED, LENGTH, FLAGS, NUMBER = range(8)
PACKET_COLUMNS = 8
FILE_SHIFT = 40  # NUMBER, here and in other tables, has the number of the packet's file above this bit
FILE_MASK = (1 << FILE_SHIFT) - 1
FRAGMENT = -2  # in DIRECTION: an IP fragment; POSITION is that of its IP header

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

# The kinds of capture files.
PCAP, PCAPNG = 0, 1
# Columns of the interfaces: link type, how ticks become nanoseconds (kind, factor), an offset in ns, snap length.
LINK, TICKS, FACTOR, SHIFT_NS, SNAP = range(5)
INTERFACE_COLUMNS = 5
MULTIPLY, DIVIDE, BINARY = range(3)

# How a scan of packets ends.
MORE, ROWS_FULL, CONNECTIONS_FULL, BLOCK, DAMAGED = range(5)
LARGEST_PACKET = 16 << 20  # libpcap writes at most 256 KiB; BIG TCP on loopback may be larger

# What a scan counts; UNREAD_KINDS is how many rows the table of unread packets has.
PACKETS, TCP_PACKETS, FRAGMENTS, PAYLOAD, UNREAD_KINDS = range(5)
COUNTERS = 5

# Packets without a TCP segment of their own, a row for each kind: link type, ethertype, protocol of IP, and why
# (``U_WHAT``); how many there are, their bytes, and number and time of the first.
U_LINK, U_ETHERTYPE, U_PROTOCOL, U_WHAT, U_PACKETS, U_BYTES, U_NUMBER, U_TIME = range(8)
UNREAD_COLUMNS = 8
MAX_UNREAD_KINDS = 256  # the last row takes all further kinds
# Why: another protocol; headers that are cut by the snap length; headers that contradict themselves or end too early;
# a link type that is not read; headers within headers without end; and everything beyond MAX_UNREAD_KINDS.
OTHER_PROTOCOL, CUT_HEADERS, BAD_HEADERS, UNREAD_LINK, NESTED_HEADERS, MANY_KINDS = range(6)

# -------------------------------------------------------------------------------------------- connections
# Sides A and B are in the order of their addresses; what belongs to a side is at its base.
A_HIGH, A_LOW, B_HIGH, B_LOW, PORTS, CLIENT, PROTOCOL, FIRST_TIME, LAST_TIME, RESET, SASL, SASL_ID = range(12)
PENDING_START, PENDING_END, MET, FIRST_NUMBER = range(12, 16)
SIDE = 16  # where the columns of side A start; those of side B start SIDE_COLUMNS later
(
    INITIAL,  # sequence number of the SYN, -1: not seen
    BASE_NUMBER,  # a sequence number ...
    BASE_OFFSET,  # ... and the offset that it has
    STARTED,  # whether there is a base
    START,  # offset of the stream's first byte
    SIDE_PACKETS,
    SIDE_BYTES,
    ENDED,  # FIN was seen
    AT,  # everything before this offset is done with
    MODE,
    ID_HASH,  # of the client id of the last request that proved itself
    LOST_FROM,  # offset from which a frame is looked for
    FRAMES,
    GAPS,
    CUT_SEGMENTS,  # whose payload is cut by the snap length
    STRAY_SEGMENTS,  # whose sequence number is far from all others
) = range(16)
SIDE_COLUMNS = 16
CONNECTION_COLUMNS = SIDE + 2 * SIDE_COLUMNS

# OTHER began in the capture with bytes that are not Kafka's; of UNRECOGNISED much was seen, but not its beginning.
UNDECIDED, KAFKA, TLS, OTHER, UNRECOGNISED = range(5)
PROTOCOLS = ("unknown", "kafka", "tls", "other", "unknown")
NEW, ALIGNED, LOST = range(3)  # MODE

# ------------------------------------------------------------------------------------------------- frames
(
    F_CONNECTION,
    F_RESPONSE,  # 0 a request, 1 a response
    F_OFFSET,  # of the size prefix, counted from the stream's start
    F_SIZE,  # what the prefix says
    F_TIME,  # of the packet that holds the first byte
    F_END_TIME,  # of the latest packet that holds some of it
    F_NUMBER,
    F_FLAGS,
    F_POSITION,  # of the first byte after the prefix in the buffer, -1: it lies in several extents
    F_FIRST,  # the extents that hold it
    F_LAST,
    F_HAVE,  # bytes after the prefix up to the first that is missing
    F_API,  # -1: unknown
    F_VERSION,
    F_CORRELATION,
    F_ID_LENGTH,  # of the client id; -1 null, -2 none
    F_MISSING,  # bytes
    F_DONE,
    F_BEGIN,  # of the prefix's first byte in the buffer
    F_END_NUMBER,  # of the latest packet that holds some of it
) = range(20)
FRAME_COLUMNS = 20
BROKEN, TOKEN, NO_REPLY, WAITED, CUT_OFF = 1, 2, 4, 8, 16  # F_FLAGS

# A call: rows of frames (-1 none), the connection.
CALL_REQUEST, CALL_RESPONSE, CALL_CONNECTION = range(3)
CALL_COLUMNS = 3

# A gap: connection * 2 + side, offset, size in bytes, reason, time and number of the packet after it, whether the
# side is that of responses.
G_DIRECTION, G_OFFSET, G_SIZE, G_REASON, G_TIME, G_NUMBER, G_RESPONSE = range(7)
GAP_COLUMNS = 7
LOST_BYTES, SNAPPED, NO_FRAME, HALF_FRAME, NOT_FOUND, BEFORE, AFTER = range(7)
GAP_REASONS = (
    "packets are missing",
    "packets are cut by the snap length",
    "these bytes are no Kafka frame",
    "the connection ended inside a frame",
    "no frame proves itself in these bytes",
    "the capture begins inside a frame",
    "the capture ends inside a frame",
)

# An extent: bytes of a stream that are there, without overlap.
E_OFFSET, E_END, E_POSITION, E_ROW = range(4)
EXTENT_COLUMNS = 4

# What is known of an API, a row for each key up to the highest: lowest and highest version, first flexible version (-1
# none); no such API: highest -1.
API_LOWEST, API_HIGHEST, API_FLEXIBLE = range(3)

LARGEST_REQUEST = 104857600  # Kafka's default of socket.request.max.bytes
LARGEST_RESPONSE = (1 << 31) - 1
# How a pass over the streams ends.
DONE, FRAMES_FULL, UNSORTED = range(3)

# -------------------------------------------------------------------------------------------- one side, being cut
WHOLE, IN_PART, WAITS = range(3)  # how much of a frame is there
# What a pass over the streams goes by.
S_FLUSH, S_PATIENCE_NS, S_PATIENCE_ROWS, S_PATIENCE_BYTES, S_NOW, S_HASTE = range(6)
# What ``walk`` finds of a frame: bytes that are missing, bytes up to the first of these, the latest time and number
# of a packet that holds some of it, and the extent behind its last one.
W_MISSING, W_HAVE, W_TIME, W_LAST, W_NUMBER = range(5)
# What ``cut_side`` works with: which side (set by who calls) ...
C_CONNECTION, C_SIDE, C_RESPONSE, C_FIRST, C_LAST, C_REQUESTS_FROM, C_REQUESTS_TO = range(7)
# ... the rows that are written next ...
C_FRAME, C_GAP = 7, 8
# ... and what is known of the side. C_SUSPECT: something was missing just before.
C_DIRECTION, C_START, C_AT, C_MODE, C_HASH, C_LOST_FROM, C_FRAMES, C_GAPS, C_SASL, C_SASL_ID = range(9, 19)
C_ENDED, C_SUSPECT, C_EXTENT = range(19, 22)
