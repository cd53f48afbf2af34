// raw-meta — recognises the first part of a message of ps-lite's bytedance fork (BytePS), which is a C struct and no
// protobuf. We do not speak it; we only say so.
//
//   RawMeta 112 bytes: body_size i32 @4   node_size i32 @12   data_type_size i32 @44       then body, i32 data types, nodes of 552 bytes

const META_BYTES = 112;
const NODE_BYTES = 552;
const TYPE_BYTES = 4;

/** True when the lengths that a RawMeta would tell add up to exactly these bytes. */
export function isRawMeta(bytes: Uint8Array, at: number, byteCount: number): boolean {
  if (byteCount < META_BYTES) return false;
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, byteCount);
  const bodyBytes = view.getInt32(4, true);
  const nodeCount = view.getInt32(12, true);
  const typeCount = view.getInt32(44, true);
  if (bodyBytes < 0 || nodeCount < 0 || typeCount < 0) return false;
  return META_BYTES + bodyBytes + typeCount * TYPE_BYTES + nodeCount * NODE_BYTES === byteCount;
}

/** What a node of the fork is told about: in our log, since it would not understand an answer. */
export const RAW_META_REFUSAL: string =
  "this is a node of bytedance's fork of ps-lite (BytePS), whose messages are C structs; Weighbridge speaks the protocol of dmlc/ps-lite: " +
  "build the program against dmlc/ps-lite";
