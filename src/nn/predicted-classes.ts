// predicted-classes — which class a network's output says, for accuracy and confusion.

import type { Activations } from "./activations.ts";

/** The index of the greatest logit of each sample, of equals the first, into `classes`. */
export function predictClasses(logits: Activations, classes: Uint8Array): void {
  const { values, sampleCount, floatsPerSample } = logits;
  for (let i = 0; i < sampleCount; i++) {
    let best = 0;
    for (let j = 1; j < floatsPerSample; j++) {
      if (values[i * floatsPerSample + j]! > values[i * floatsPerSample + best]!) best = j;
    }
    classes[i] = best;
  }
}
