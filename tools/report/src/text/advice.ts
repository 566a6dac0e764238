/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to call, in the words of the program: of PyTorch for its own snapshots, of the Python module
 * for programs of Python, of the C library for others.
 */
import { Snapshot } from '../data/model.js';

interface Advice { trim: string; history: string; stacks: string }

const TENURE_HISTORY = 'Set TENURE_CONF=history:light (history:full for call stacks too)';

const ADVICE: Record<'C' | 'Python' | 'PyTorch', Advice> = {
    C: {
        trim: 'tnr_trim', history: `${TENURE_HISTORY}, or call tnr_history_set`,
        stacks: 'history:full',
    },
    Python: {
        trim: 'tenure.trim()', history: `${TENURE_HISTORY}, or call tenure.history("full")`,
        stacks: 'tenure.history("full")',
    },
    PyTorch: {
        trim: 'torch.cuda.empty_cache()',
        history: 'Call torch.cuda.memory._record_memory_history()',
        stacks: 'torch.cuda.memory._record_memory_history()',
    },
};

/** Whether the allocator was another one than Tenure. */
export function isConverted({ reason }: Pick<Snapshot, 'reason'>): boolean {
    return reason === 'converted';
}

function isPython({ program, frames }: Snapshot): boolean {
    return /(^|\/)(i?python[\d.]*|[^/]*\.py)$/.test(program) ||
        frames.some(({ place }) => /\.py(:\d+)?$/.test(place));
}

export function adviceFor(snapshot: Snapshot): Advice {
    return ADVICE[isConverted(snapshot) ? 'PyTorch' : isPython(snapshot) ? 'Python' : 'C'];
}

/** "Tenure 1.1.0", "PyTorch's allocator". */
export function allocatorName({ writer, settings, ...rest }: Snapshot): string {
    if (!isConverted(rest)) {
        return `Tenure${writer.version ? ` ${writer.version}` : ''}`;
    }
    const isExpandable = settings.some(([key, value]) =>
        key === 'expandable_segments' && /^true$/i.test(value));
    return `${writer.name === 'PyTorch' ? 'PyTorch\u2019s allocator' : 'The allocator'}` +
        (isExpandable ? ' with expandable segments' : '');
}
