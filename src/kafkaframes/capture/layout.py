"""Column numbers of the tables that this package's kernels share, and the kernels' status codes.

Each table is a C-ordered int64 array with one row per packet, connection, frame and so on. The numbers are compiled
into the kernels, so the kernel cache also depends on this file (``wire/_jit.py``).
"""

from __future__ import annotations

# ------------------------------------------------------------------------------------------------ packets
# A row is a TCP segment with payload. OFFSET is a position in the stream of one direction, relative to the first
# packet seen. POSITION is the payload's position in the window's buffer. DIRECTION is connection * 2 + side.
TIME, DIRECTION, OFFSET, POSITION, CAPTURED, LENGTH, FLAGS, NUMBER = range(8)
PACKET_COLUMN_COUNT = 8
FILE_NUMBER_SHIFT = 40  # in all tables, the bits of NUMBER from this one on contain the file number
FILE_NUMBER_MASK = (1 << FILE_NUMBER_SHIFT) - 1
FRAGMENT_DIRECTION = -2  # value of DIRECTION for an IP fragment, whose POSITION is that of its IP header

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

# Kinds of capture files.
PCAP, PCAPNG = 0, 1
# Columns of interfaces: link type, conversion of ticks to nanoseconds (kind, factor), offset in ns, snap length.
LINK, TICKS, FACTOR, SHIFT_NS, SNAP = range(5)
INTERFACE_COLUMN_COUNT = 5
MULTIPLY, DIVIDE, BINARY = range(3)

# Status of a packet scan.
MORE, ROWS_FULL, CONNECTIONS_FULL, BLOCK, DAMAGED = range(5)
MAX_PACKET_BYTES = 16 << 20  # libpcap writes at most 256 KiB; packets of BIG TCP on loopback may be larger

# Counters of a scan. UNREAD_KINDS is the number of rows in the table of unread packets.
PACKETS, TCP_PACKETS, FRAGMENTS, PAYLOAD, UNREAD_KINDS = range(5)
COUNTER_COUNT = 5

# Packets without a TCP segment, one row for each kind: link type, ethertype, IP protocol, reason (``U_WHAT``), number
# of packets, bytes, and number and time of the first packet.
U_LINK, U_ETHERTYPE, U_PROTOCOL, U_WHAT, U_PACKETS, U_BYTES, U_NUMBER, U_TIME = range(8)
UNREAD_COLUMN_COUNT = 8
MAX_UNREAD_KINDS = 256  # the last row counts all further kinds together
# Reasons: another protocol; headers cut by the snap length; headers that contradict themselves or end too early; an
# unsupported link type; too many nested headers; further kinds above MAX_UNREAD_KINDS.
OTHER_PROTOCOL, CUT_HEADERS, BAD_HEADERS, UNREAD_LINK, NESTED_HEADERS, MANY_KINDS = range(6)

# -------------------------------------------------------------------------------------------- connections
# Sides A and B are ordered by address. Columns of a side are relative to the side's base.
A_HIGH, A_LOW, B_HIGH, B_LOW, PORTS, CLIENT, PROTOCOL, FIRST_TIME, LAST_TIME, RESET, SASL, SASL_ID = range(12)
PENDING_START, PENDING_END, MET, FIRST_NUMBER = range(12, 16)
FIRST_SIDE_COLUMN = 16  # first column of side A; the first column of side B is SIDE_COLUMN_COUNT further on
(
    INITIAL,  # sequence number of the SYN, -1 if no SYN was seen
    BASE_NUMBER,  # sequence number of the furthest segment so far
    BASE_OFFSET,  # stream offset of BASE_NUMBER
    STARTED,  # whether BASE_NUMBER is set
    START,  # offset of the stream's first byte
    SIDE_PACKETS,
    SIDE_BYTES,
    ENDED,  # whether a FIN was seen
    AT,  # offset up to which the stream is processed
    MODE,
    ID_HASH,  # hash of the client id of the last proven request
    LOST_FROM,  # offset from which the next frame is searched
    FRAMES,
    GAPS,
    CUT_SEGMENTS,  # segments with a payload that the snap length truncated
    STRAY_SEGMENTS,  # segments whose sequence number is far from all others
) = range(16)
SIDE_COLUMN_COUNT = 16
CONNECTION_COLUMN_COUNT = FIRST_SIDE_COLUMN + 2 * SIDE_COLUMN_COUNT

# OTHER: the first bytes of the connection are not Kafka. UNRECOGNISED: many bytes were seen, but not the first ones.
UNDECIDED, KAFKA, TLS, OTHER, UNRECOGNISED = range(5)
PROTOCOL_NAMES = ("unknown", "kafka", "tls", "other", "unknown")
NEW, ALIGNED, LOST = range(3)  # values of MODE

# ------------------------------------------------------------------------------------------------- frames
(
    F_CONNECTION,
    F_RESPONSE,  # 0 request, 1 response
    F_OFFSET,  # stream offset of the size prefix
    F_SIZE,  # value of the size prefix
    F_TIME,  # time of the packet that contains the first byte
    F_END_TIME,  # latest time of the packets that contain the frame
    F_NUMBER,
    F_FLAGS,
    F_POSITION,  # buffer position of the first byte after the prefix, -1 if the frame spans several extents
    F_FIRST,  # first and last extent of the frame
    F_LAST,
    F_HAVE,  # number of bytes after the prefix and before the first missing byte
    F_API,  # -1 if unknown
    F_VERSION,
    F_CORRELATION,
    F_ID_LENGTH,  # length of the client id, -1 if null, -2 if the frame has none
    F_MISSING,  # number of missing bytes
    F_DONE,
    F_BEGIN,  # buffer position of the first byte of the prefix
    F_END_NUMBER,  # highest number of the packets that contain the frame
) = range(20)
FRAME_COLUMN_COUNT = 20
BROKEN, TOKEN, NO_REPLY, WAITED, CUT_OFF = 1, 2, 4, 8, 16  # bits of F_FLAGS

# A call: frame rows of the request and the response (-1 if missing), and the connection.
CALL_REQUEST, CALL_RESPONSE, CALL_CONNECTION = range(3)
CALL_COLUMN_COUNT = 3

# A gap: connection * 2 + side, offset, size in bytes, reason, time and number of the next packet, and whether this side
# of the connection sends responses.
G_DIRECTION, G_OFFSET, G_SIZE, G_REASON, G_TIME, G_NUMBER, G_RESPONSE = range(7)
GAP_COLUMN_COUNT = 7
LOST_BYTES, SNAPPED, NO_FRAME, HALF_FRAME, NOT_FOUND, BEFORE, AFTER = range(7)
GAP_REASONS = (
    "packets are missing",
    "packets are cut by the snap length",
    "these bytes are not a Kafka frame",
    "the connection ended inside a frame",
    "no Kafka frame can be recognised in these bytes",
    "the capture begins inside a frame",
    "the capture ends inside a frame",
)

# An extent: captured bytes of a stream that do not overlap with other extents.
E_OFFSET, E_END, E_POSITION, E_ROW = range(4)
EXTENT_COLUMN_COUNT = 4

# Supported versions, one row for each API key up to the highest: lowest and highest version, first flexible version.
# For a key without an API the highest version is -1.
API_LOWEST, API_HIGHEST, API_FLEXIBLE = range(3)

MAX_REQUEST_BYTES = 104857600  # default of the broker's socket.request.max.bytes
MAX_RESPONSE_BYTES = (1 << 31) - 1
# Results of a call that splits TCP streams into frames.
DONE, FRAMES_FULL, UNSORTED = range(3)

# ------------------------------------------------------------------------ state of one side while it is split in frames
WHOLE, IN_PART, WAITS = range(3)  # completeness of a frame
# Settings of a call that splits TCP streams into frames.
S_FLUSH, S_PATIENCE_NS, S_PATIENCE_ROWS, S_PATIENCE_BYTES, S_NOW, S_HASTE = range(6)
# Results of ``measure_frame``: number of missing bytes, number of bytes before the first missing one, latest time
# of its packets, the extent after its last one, and highest number of its packets.
W_MISSING, W_HAVE, W_TIME, W_LAST, W_NUMBER = range(5)
# State of ``split_side``. The caller sets the fields that select the side of the connection.
C_CONNECTION, C_SIDE, C_RESPONSE, C_FIRST, C_LAST, C_REQUESTS_FROM, C_REQUESTS_TO = range(7)
# The next rows to write in the tables of frames and gaps.
C_FRAME, C_GAP = 7, 8
# The state of the side of the connection. C_SUSPECT: bytes are missing directly before this position.
C_DIRECTION, C_START, C_AT, C_MODE, C_HASH, C_LOST_FROM, C_FRAMES, C_GAPS, C_SASL, C_SASL_ID = range(9, 19)
C_ENDED, C_SUSPECT, C_EXTENT = range(19, 22)
