// hash-text — 32 bits of a name: FNV-1a over its UTF-16 units, then mixed, so that names that differ in their last letter differ everywhere.
// Not for keys of parameters (mix.ts), and no protection against somebody who looks for collisions: whoever uses it checks for them.

export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    hash = Math.imul(hash ^ (unit & 0xff), 0x01000193);
    hash = Math.imul(hash ^ (unit >>> 8), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
