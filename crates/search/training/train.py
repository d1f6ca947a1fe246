#!/usr/bin/env python3
"""Trains the table of word pieces that `crates/search` embeds, and packs it. See README.md beside this file.

  train.py corpus OUT                           pairs of texts from API descriptions in installed packages
  train.py teach OUT --teacher DIR              what the teacher (an ONNX sentence encoder) thinks of each text
  train.py train OUT --init DIR [--epochs N]    trains from an existing table
  train.py pack TABLE_DIR FILE                  table and vocabulary as the file that the crate embeds
"""
import argparse, collections, glob, html, json, os, random, re, struct
import numpy as np

SEED, DIMENSIONS, PIECES = 1, 256, 128

def split(name):
    name = re.sub(r'([a-z0-9])([A-Z])|([A-Z])(?=[A-Z][a-z])', lambda m: (m[1] + ' ' + m[2]) if m[1] else m[3] + ' ', name)
    return ' '.join(re.split(r'[^A-Za-z0-9]+', name)).strip().lower()

def plain(text):
    text = re.sub(r'<[^>]*>', ' ', html.unescape(text or ''))
    return re.sub(r'\s+', ' ', re.sub(r'https?://\S+', ' ', text)).strip()

def sentences(text):
    return [s for s in re.split(r'(?<=[.!?])\s+', text) if len(s) > 12]

def botocore():
    import botocore
    for path in sorted(glob.glob(os.path.dirname(botocore.__file__) + '/data/*/*/service-2.json*')):
        raw = open(path, 'rb').read()
        if path.endswith('.gz'):
            import gzip
            raw = gzip.decompress(raw)
        model = json.loads(raw)
        service = model['metadata'].get('serviceId') or model['metadata']['serviceFullName']
        for name, operation in sorted(model['operations'].items()):
            shape = model['shapes'].get(operation.get('input', {}).get('shape'), {})
            members = ', '.join(split(member) for member in list(shape.get('members', {}))[:12])
            yield service, split(name), plain(operation.get('documentation')), members

def google():
    import googleapiclient
    for path in sorted(glob.glob(os.path.dirname(googleapiclient.__file__) + '/discovery_cache/documents/*.json')):
        document = json.load(open(path))
        def methods(resource):
            for method in (resource.get('methods') or {}).values():
                yield method
            for inner in (resource.get('resources') or {}).values():
                yield from methods(inner)
        for method in methods(document):
            name = split(' '.join(method['id'].split('.')[1:][-2:]))
            members = ', '.join(split(p) for p in list(method.get('parameters') or {})[:12])
            yield document.get('canonicalName') or document.get('title', ''), name, plain(method.get('description')), members

def corpus(options):
    pairs, seen, per_service = [], set(), collections.Counter()
    everything = list(botocore()) + list(google())
    random.Random(SEED).shuffle(everything)
    for service, name, description, members in everything:
        parts = sentences(description)
        # The same operation stands in several versions of an API, and some services have a thousand of one pattern.
        if not parts or (name, parts[0]) in seen or per_service[service] >= 120:
            continue
        seen.add((name, parts[0]))
        per_service[service] += 1
        pairs.append(('name', name, parts[0][:240]))
        pairs.append(('name', f'{service} {name}', description[:320]))
        rest = ' '.join(parts[1:])[:240]
        if len(rest) > 40:
            pairs.append(('first', parts[0][:240], f'{service} {name}: {rest} {members[:120]}'))
    texts = sorted({text for pair in pairs for text in pair[1:]})
    json.dump(pairs, open(f'{options.out}/pairs.json', 'w'))
    json.dump(texts, open(f'{options.out}/texts.json', 'w'))
    print(len(pairs), 'pairs,', len(texts), 'texts,', len(per_service), 'services')

def teach(options):
    import onnxruntime
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(options.teacher + '/tokenizer.json')
    tokenizer.enable_truncation(96)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(glob.glob(options.teacher + '/*.onnx')[0], settings)
    names = {given.name for given in session.get_inputs()}
    texts = json.load(open(f'{options.out}/texts.json'))
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    vectors = np.zeros((len(texts), 384), np.float16)
    for start in range(0, len(order), 32):
        batch = order[start:start + 32]
        read = [tokenizer.encode(texts[at]) for at in batch]
        longest = max(len(one.ids) for one in read)
        ids = np.zeros((len(batch), longest), np.int64)
        for row, one in zip(ids, read):
            row[:len(one.ids)] = one.ids
        mask = (np.arange(longest) < np.array([[len(one.ids)] for one in read])).astype(np.int64)
        given = {'input_ids': ids, 'attention_mask': mask, 'token_type_ids': np.zeros_like(ids)}
        result = session.run(None, {name: value for name, value in given.items() if name in names})[0]
        if result.ndim == 3:
            result = (result * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        vectors[batch] = result / np.linalg.norm(result, axis=1, keepdims=True)
        if start % 3200 == 0:
            print(start, 'of', len(order), flush=True)
    np.save(f'{options.out}/teacher.npy', vectors)

def read_table(folder):
    data = open(folder + '/table_i8.safetensors', 'rb').read()
    size = struct.unpack('<Q', data[:8])[0]
    head = json.loads(data[8:8 + size])
    body = data[8 + size:]
    part = lambda name, kind: np.frombuffer(body[slice(*head[name]['data_offsets'])], kind)
    rows = part('table', np.int8).reshape(head['table']['shape'])
    return rows.astype(np.float32) * part('scale', np.float32)[:, None]

def noise(text, rnd):
    words = text.split(' ')
    for at, word in enumerate(words):
        if len(word) > 4 and rnd.random() < .3:
            j, kind = rnd.randrange(1, len(word) - 1), rnd.randrange(3)
            words[at] = word[:j] + (word[j + 1] + word[j] + word[j + 2:], word[j + 1:], word[j] + word[j:])[kind]
    return ' '.join(words)

def train(options):
    from scipy.sparse import csr_matrix
    from tokenizers import Tokenizer
    rnd = random.Random(SEED)
    tokenizer = Tokenizer.from_file(options.init + '/tokenizer.json')
    start = read_table(options.init)
    table, first, second = start.copy(), np.zeros_like(start), np.zeros_like(start)
    steps_of = np.zeros(len(table))
    pairs, texts = json.load(open(f'{options.out}/pairs.json')), json.load(open(f'{options.out}/texts.json'))
    teacher = np.load(f'{options.out}/teacher.npy')
    number = {text: at for at, text in enumerate(texts)}
    size = 512
    total = int(options.epochs * len(pairs) / size)

    def bag(given):
        read = [one.ids[:PIECES] or [0] for one in tokenizer.encode_batch(given, add_special_tokens=False)]
        ends = np.cumsum([0] + [len(ids) for ids in read])
        ids = np.concatenate([np.array(ids) for ids in read])
        return csr_matrix((np.ones(len(ids), np.float32), ids, ends), (len(given), len(table)))

    def softmax(scores):
        e = np.exp(scores - scores.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    order = []
    for step in range(total):
        if len(order) < size:
            order = list(range(len(pairs)))
            rnd.shuffle(order)
        batch = [pairs[order.pop()] for _ in range(size)]
        left = bag([noise(p[1], rnd) if rnd.random() < .15 else p[1] for p in batch])
        right = bag([p[2] for p in batch])
        a, b = left @ table, right @ table
        na, nb = np.linalg.norm(a, axis=1, keepdims=True) + 1e-6, np.linalg.norm(b, axis=1, keepdims=True) + 1e-6
        x, y = a / na, b / nb
        scores = x @ y.T / .05
        ta = teacher[[number[p[1]] for p in batch]].astype(np.float32)
        tb = teacher[[number[p[2]] for p in batch]].astype(np.float32)
        t = ta @ tb.T / .05
        same = np.eye(size, dtype=np.float32)
        soft, hard = 1 - options.hard, options.hard
        rows, columns = softmax(scores), softmax(scores.T)
        wanted_rows, wanted_columns = hard * same + soft * softmax(t), hard * same + soft * softmax(t.T)
        g = (rows - wanted_rows + (columns - wanted_columns).T) / size / .05
        gx, gy = g @ y, g.T @ x
        ga = (gx - x * (gx * x).sum(1, keepdims=True)) / na
        gb = (gy - y * (gy * y).sum(1, keepdims=True)) / nb
        touched = np.unique(np.concatenate([left.indices, right.indices]))
        grad = (left.T.tocsr()[touched] @ ga) + (right.T.tocsr()[touched] @ gb)
        grad += options.keep * (table[touched] - start[touched])
        steps_of[touched] += 1
        first[touched] = .9 * first[touched] + .1 * grad
        second[touched] = .999 * second[touched] + .001 * grad ** 2
        rate = options.rate * min(1, (step + 1) / 50) * (1 - step / total)
        n = steps_of[touched][:, None]
        table[touched] -= rate * (first[touched] / (1 - .9 ** n)) / (np.sqrt(second[touched] / (1 - .999 ** n)) + 1e-8)
        if step % 100 == 0:
            loss = -(wanted_rows * np.log(rows + 1e-9)).sum(1).mean()
            print(step, 'of', total, 'loss %.3f' % loss, flush=True)
    scale = np.abs(table).max(1) / 127 + 1e-12
    rows = np.round(table / scale[:, None]).astype(np.int8)
    os.makedirs(options.result, exist_ok=True)
    parts = {'scale': ('F32', scale.astype(np.float32)), 'table': ('I8', rows)}
    head, at = {}, 0
    for name, (kind, value) in parts.items():
        head[name] = {'dtype': kind, 'shape': list(value.shape), 'data_offsets': [at, at + value.nbytes]}
        at += value.nbytes
    raw = json.dumps(head).encode()
    with open(options.result + '/table_i8.safetensors', 'wb') as out:
        out.write(struct.pack('<Q', len(raw)) + raw + b''.join(value.tobytes() for _, value in parts.values()))
    open(options.result + '/tokenizer.json', 'w').write(open(options.init + '/tokenizer.json').read())

def pack(options):
    vocabulary = json.load(open(options.table + '/tokenizer.json'))['model']['vocab']
    data = open(options.table + '/table_i8.safetensors', 'rb').read()
    size = struct.unpack('<Q', data[:8])[0]
    head, body = json.loads(data[8:8 + size]), data[8 + size:]
    part = lambda name: body[slice(*head[name]['data_offsets'])]
    rows, scales, width = part('table'), part('scale'), head['table']['shape'][1]
    pieces = sorted((piece.encode(), at) for piece, at in vocabulary.items())
    with open(options.file, 'wb') as out:
        out.write(b'TCMEAN01' + struct.pack('<II', len(pieces), width))
        out.write(np.cumsum([len(piece) for piece, _ in pieces]).astype('<u4').tobytes())
        out.write(b''.join(scales[4 * at:4 * at + 4] for _, at in pieces))
        out.write(b''.join(piece for piece, _ in pieces))
        out.write(b''.join(rows[at * width:(at + 1) * width] for _, at in pieces))

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for step in (corpus, teach, train, pack):
        command = commands.add_parser(step.__name__)
        command.set_defaults(step=step)
        if step is pack:
            command.add_argument('table')
            command.add_argument('file')
            continue
        command.add_argument('out')
        if step is teach:
            command.add_argument('--teacher', required=True)
        if step is train:
            command.add_argument('--init', required=True)
            command.add_argument('--result', required=True)
            command.add_argument('--epochs', type=float, default=3)
            command.add_argument('--rate', type=float, default=1e-3)
            command.add_argument('--hard', type=float, default=.5)
            command.add_argument('--keep', type=float, default=0.)
    options = parser.parse_args()
    options.step(options)

main()
