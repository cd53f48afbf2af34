// long-bodies — how bodies of checkpoint operations travel that do not fit a control frame: reports and manifests of jobs with many parameters,
// servers or workers. Both sides: who asks cuts its request and puts the answer together, the server does it the other way round.
//
//   asker                                        server
//   part {id, at: 0, text} … part {id, at: n, text} ──►  keeps the text
//   whole {id, op} ───────────────────────────────────►  runs `op` with it; the answer's first piece, and `more` if there is more
//   more {id, at} … ──────────────────────────────────►  the next pieces
//
// Invariants:
//   B1. All of these mean the same when they are asked twice, as all control does.
//   B2. A server keeps one request, of REQUEST_CHARS_MAX at most, and its last ANSWERS_MAX long answers: newer ones take the place of older ones,
//       and whoever asks for those is told so.

import { WeighbridgeError } from "../../base/errors.ts";
import { parseBody } from "../../store/snapshot/checkpoint-messages.ts";
import { type Check, count, object, shortText, text } from "../../wire/json-body.ts";

/** Escaped twice, as text within JSON within JSON, this is still shorter than a frame. */
export const PIECE_CHARS: number = 64 * 1024;
const REQUEST_CHARS_MAX = 64 * 1024 * 1024;
const ANSWERS_MAX = 4;
const ID_LENGTH_MAX = 64;

const PART = "part";
const WHOLE = "whole";
const MORE = "more";

const partShape: Check<{ id: string; at: number; text: string }> = object({ id: shortText(ID_LENGTH_MAX), at: count, text });
const wholeShape: Check<{ id: string; op: string }> = object({ id: shortText(ID_LENGTH_MAX), op: shortText(ID_LENGTH_MAX) });
const moreShape: Check<{ id: string; at: number }> = object({ id: shortText(ID_LENGTH_MAX), at: count });

/** An answer, or its first piece and the name under which there is more. */
export type PieceReply = { readonly body: string; readonly more?: string | undefined };

type Handle = (op: string, body: string) => Promise<string>;

/** The server's side. */
export class LongBodies {
  readonly #handle: Handle;
  #request: { readonly id: string; readonly pieces: string[]; length: number } = { id: "", pieces: [], length: 0 };
  readonly #answers = new Map<string, string>();
  #answerCount = 0;

  constructor(handle: Handle) {
    this.#handle = handle;
  }

  /** Rejects with BAD_REQUEST for pieces that do not fit together, and with what the operation throws. */
  async serve(op: string, body: string): Promise<PieceReply> {
    if (op === PART) return this.#take(parseBody(partShape, body, "a piece of a request"));
    if (op === MORE) return this.#next(parseBody(moreShape, body, "a request for more"));
    if (op !== WHOLE) return this.#cut(await this.#handle(op, body));
    const { id, op: wanted } = parseBody(wholeShape, body, "a request in pieces");
    if (id !== this.#request.id) throw new WeighbridgeError("BAD_REQUEST", `no pieces of ${id} are here any more`);
    return this.#cut(await this.#handle(wanted, this.#request.pieces.join("")));
  }

  #take({ id, at, text: piece }: { id: string; at: number; text: string }): PieceReply {
    if (id !== this.#request.id) this.#request = { id, pieces: [], length: 0 };
    const request = this.#request;
    if (at > request.length) throw new WeighbridgeError("BAD_REQUEST", `pieces before ${at} of ${id} are missing`);
    if (at + piece.length > REQUEST_CHARS_MAX)
      throw new WeighbridgeError("UNSUPPORTED", `a request of more than ${REQUEST_CHARS_MAX} letters`);
    if (at === request.length) {
      request.pieces.push(piece);
      request.length += piece.length;
    } // otherwise it is here already (B1)
    return { body: "{}" };
  }

  #cut(answer: string): PieceReply {
    if (answer.length <= PIECE_CHARS) return { body: answer };
    const id = `${++this.#answerCount}`;
    this.#answers.set(id, answer);
    const [oldest] = this.#answers.keys();
    if (this.#answers.size > ANSWERS_MAX && oldest !== undefined) this.#answers.delete(oldest); // B2
    return this.#next({ id, at: 0 });
  }

  #next({ id, at }: { id: string; at: number }): PieceReply {
    const answer = this.#answers.get(id);
    if (answer === undefined) throw new WeighbridgeError("BAD_REQUEST", `there is no more of answer ${id} here`);
    const end = at + PIECE_CHARS;
    return { body: answer.slice(at, end), more: end < answer.length ? id : undefined };
  }
}

/** The asker's side: `ask` carries one piece there and one back. */
export async function askInPieces(
  ask: (op: string, body: string) => Promise<PieceReply>,
  { op, body, id }: { readonly op: string; readonly body: string; readonly id: string },
): Promise<string> {
  let reply: PieceReply;
  if (body.length <= PIECE_CHARS) reply = await ask(op, body);
  else {
    for (let at = 0; at < body.length; at += PIECE_CHARS) {
      await ask(PART, JSON.stringify({ id, at, text: body.slice(at, at + PIECE_CHARS) }));
    }
    reply = await ask(WHOLE, JSON.stringify({ id, op }));
  }
  let answer = reply.body;
  while (reply.more !== undefined) {
    reply = await ask(MORE, JSON.stringify({ id: reply.more, at: answer.length }));
    answer += reply.body;
  }
  return answer;
}
