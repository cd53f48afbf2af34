// text-width — how many columns of a terminal a text takes: East Asian characters and emoji take two, combining marks
// and colours none. Pure.

import { stripVTControlCharacters } from "node:util";

const PLAIN = /^[\x20-\x7e]*$/;
/** Hangul letters that syllables begin with, CJK symbols, kana, ideographs, syllables, full-width forms, emoji. */
const WIDE =
  /^(?:[\u{1100}-\u{115f}\u{2e80}-\u{303e}\u{3041}-\u{33ff}\u{3400}-\u{4dbf}\u{4e00}-\u{9fff}\u{a000}-\u{a4cf}\u{a960}-\u{a97f}\u{ac00}-\u{d7a3}\u{f900}-\u{faff}\u{fe30}-\u{fe6f}\u{ff01}-\u{ff60}\u{ffe0}-\u{ffe6}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation})/u;
/** Marks, and characters that only say how others are shown. */
const NOTHING = /^[\p{Mn}\p{Me}\p{Cf}\p{Cc}]/u;
/** Shows the character before it as an emoji. */
const EMOJI_STYLE = "\u{fe0f}";

const graphemes = new Intl.Segmenter();

export function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes.segment(stripVTControlCharacters(text))) width += graphemeWidth(segment);
  return width;
}

function graphemeWidth(grapheme: string): number {
  if (WIDE.test(grapheme) || grapheme.includes(EMOJI_STYLE)) return 2;
  return NOTHING.test(grapheme) ? 0 : 1;
}

/** As String.padEnd, by columns. */
export function padEnd(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - widthOf(text)));
}

/** As String.padStart, by columns. */
export function padStart(text: string, columns: number): string {
  return " ".repeat(Math.max(0, columns - widthOf(text))) + text;
}

/** At most so many columns of the text; what was cut is an ellipsis. */
export function cutText(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  let [cut, width] = ["", 0];
  for (const { segment } of graphemes.segment(text)) {
    width += graphemeWidth(segment);
    if (width > columns - 1) break;
    cut += segment;
  }
  return `${cut}…`;
}
