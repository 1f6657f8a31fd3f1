// Figures and names in words.

// gap keeps a figure and its unit on one line.
const gap = "\u00a0";
const KiB = 2 ** 10, MiB = 2 ** 20, GiB = 2 ** 30, TiB = 2 ** 40;

// bytes writes a size so that two sizes near each other still differ: 11.65 GiB, 69 MiB.
export function bytes(n) {
  const size = Math.abs(n);
  const sign = n < 0 ? "−" : "";
  if (size >= TiB) return `${sign}${(size / TiB).toFixed(2)}${gap}TiB`;
  if (size >= 100 * GiB) return `${sign}${(size / GiB).toFixed(0)}${gap}GiB`;
  if (size >= 10 * GiB) return `${sign}${(size / GiB).toFixed(1)}${gap}GiB`;
  if (size >= GiB) return `${sign}${(size / GiB).toFixed(2)}${gap}GiB`;
  if (size >= 10 * MiB) return `${sign}${(size / MiB).toFixed(0)}${gap}MiB`;
  if (size >= MiB) return `${sign}${(size / MiB).toFixed(1)}${gap}MiB`;
  if (size >= KiB) return `${sign}${(size / KiB).toFixed(0)}${gap}KiB`;
  return `${sign}${size}${gap}B`;
}

// pairOf writes a micro-batch and its accumulation.
export const pairOf = (p) => `${p.micro_batch}${gap}×${gap}${p.gradient_accumulation}`;

// gib writes a size for a cell of a table: gibibytes without their unit.
export function gib(n) {
  const size = n / GiB;
  if (size >= 1000) return `${(size / 1024).toFixed(1)}T`;
  return size >= 9.95 ? size.toFixed(0) : size.toFixed(1);
}

export const count = (n) => n.toLocaleString("en");

// parameters writes a number of parameters as people say it.
export function parameters(n) {
  if (n >= 1e12) return `${(n / 1e12).toFixed(2)}T`;
  if (n >= 1e9) return `${(n / 1e9).toFixed(2)}B`;
  if (n >= 1e6) return `${(n / 1e6).toFixed(1)}M`;
  return count(n);
}

// likely writes how likely something is: no run is certain either way.
export const likely = (x) => `${x < 0.01 ? "below 1 %" : x > 0.99 ? "above 99 %" : share(x)} likely to fit`;

// share writes a part of a whole; signs of a share that is not quite nothing or all stay.
export function share(x) {
  if (x > 0 && x < 0.005) return "below 1 %";
  if (x < 1 && x > 0.995) return "above 99 %";
  return `${Math.round(x * 100)}${gap}%`;
}

export const verdicts = {
  fits: { word: "fits", sign: "✓", means: "even the upper bound is within what the card gives to CUDA" },
  tight: { word: "tight", sign: "≈", means: "the figure is within the card, its upper bound is not" },
  unlikely: { word: "unlikely", sign: "!", means: "only the lower bound is within the card" },
  does_not_fit: { word: "does not fit", sign: "✕", means: "not even the lower bound is within the card" },
  unknown: { word: "unknown", sign: "?", means: "nobody knows how much the card gives to CUDA" },
};

export const components = {
  weights: "weights",
  gradients: "gradients",
  optimizer_state: "optimizer state",
  precision_copies: "precision copies",
  activations: "activations",
  logits_and_loss: "logits and loss",
  temporaries: "temporaries",
  communication: "communication",
  allocator: "allocator",
  cuda_context: "CUDA context",
  whole: "all of it",
};

export const spoken = (name) => components[name] ?? name.replaceAll("_", " ");
