# judge.py CORPUS: the conversations of runtime/llm/tests/corpus, judged by what providers publish for their callers: the
# OpenAI and Anthropic SDKs, and AWS's for Bedrock. None of them is ours. For each case:
#   - our request is of the SDK's own types, no member unknown and none missing, and it is what the SDK sends if it is
#     given the same: the same path and the same body;
#   - what the SDK reads from the answer is what our reader read: texts, calls, thinking, the end, what it cost, and
#     whether it is an error.
# Where the two differ on purpose, or an answer is broken on purpose, otherwise.json says why; what stands there without
# need is a fault too. Ends with `N judged, N otherwise`; a fault is a line, and exit code 1.
import base64
import io
import json
import pathlib
import sys
import urllib.parse

import anthropic
import botocore.awsrequest
import botocore.config
import botocore.exceptions
import botocore.session
import httpx2
import openai
from anthropic.types import message_create_params
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

from fits import misfit

BASE = 'http://judge.invalid/v1'


# --- the SDKs --------------------------------------------------------------------------------------------------------
class Wire(httpx2.BaseTransport):
    """In place of the network: keeps the request and answers what was recorded."""

    def __init__(self, case):
        self.case, self.sent = case, None

    def handle_request(self, request):
        self.sent = (f'{request.method} {request.url.raw_path.decode()}', json.loads(request.read()))
        headers = {'content-type': self.case.ask['content_type']}
        return httpx2.Response(self.case.ask['status'], headers=headers, content=self.case.response)


def arguments_of(text):
    """Arguments as we read them: an object, nothing for none, or what is no JSON."""
    try:
        return json.loads(text or '{}') or {}
    except ValueError:
        return text


def reading(blocks, stop, usage):
    return {'blocks': blocks, 'stop': stop, 'usage': usage}


class Sdk:
    """An SDK that speaks through httpx, and checks what it reads against its own types."""

    def __init__(self, module, client, **options):
        self.module, self.client, self.options = module, client, options

    def over(self, wire):
        http = self.module.DefaultHttpxClient(transport=wire)
        return self.client(api_key='k', http_client=http, max_retries=0, _strict_response_validation=True, **self.options)

    def judge(self, case):
        kinds = self.types()
        stream = bool(case.body.get('stream'))
        if said := misfit(case.body, kinds[stream], 'request'):
            yield 'request', said
        wire = Wire(case)
        read = None
        try:
            read = self.read(self.over(wire), case.body, stream)
        except Exception as error:  # whatever it is, the SDK has no answer for its caller
            read = {'error': f'{error} {error.__cause__ or ""}'}
        if wire.sent != (case.line, case.body):
            yield 'request', f'the SDK sends {wire.sent}'
        yield from case.compare(read)


class Chat(Sdk):
    def types(self):
        return (
            completion_create_params.CompletionCreateParamsNonStreaming,
            completion_create_params.CompletionCreateParamsStreaming,
        )

    def read(self, client, body, stream):
        came = client.chat.completions.create(**body)
        if stream:
            state = ChatCompletionStreamState()
            for chunk in came:
                state.handle_chunk(chunk)
            came = state.current_completion_snapshot
        choice = came.choices[0]
        message = choice.message
        blocks = [{'text': text} for text in [message.content or message.refusal] if text]
        for call in message.tool_calls or []:
            blocks.append({'tool_call': [call.id, call.function.name, arguments_of(call.function.arguments)]})
        stops = {'stop': 'end', 'tool_calls': 'end', 'length': 'length', 'content_filter': 'refused'}
        stop = 'refused' if message.refusal else stops.get(choice.finish_reason, 'other')
        usage = came.usage and {
            'input': came.usage.prompt_tokens,
            'output': came.usage.completion_tokens,
            'cached': came.usage.prompt_tokens_details and came.usage.prompt_tokens_details.cached_tokens or 0,
        }
        return reading(blocks, stop, usage)


class Responses(Sdk):
    def types(self):
        return (
            response_create_params.ResponseCreateParamsNonStreaming,
            response_create_params.ResponseCreateParamsStreaming,
        )

    def read(self, client, body, stream):
        came = client.responses.create(**body)
        if stream:
            events = list(came)
            ends = [each.response for each in events if each.type in ('response.completed', 'response.incomplete', 'response.failed')]
            if not ends:
                raise ValueError('the stream has no end')
            came = ends[-1]
        if came.error:
            raise ValueError(came.error.message)
        blocks, refused = [], False
        for item in came.output:
            if item.type == 'message':
                for part in item.content:
                    refused |= part.type == 'refusal'
                    blocks.append({'text': part.refusal if part.type == 'refusal' else part.text})
            elif item.type == 'function_call':
                blocks.append({'tool_call': [item.call_id, item.name, arguments_of(item.arguments)]})
            else:
                blocks.append({'opaque': item.to_dict()})
        reason = came.incomplete_details and came.incomplete_details.reason
        stop = {'max_output_tokens': 'length', 'content_filter': 'refused'}.get(reason, 'end')
        usage = came.usage and {
            'input': came.usage.input_tokens,
            'output': came.usage.output_tokens,
            'cached': came.usage.input_tokens_details.cached_tokens,
        }
        return reading(blocks, 'refused' if refused else stop, usage)


class Messages(Sdk):
    def types(self):
        return (
            message_create_params.MessageCreateParamsNonStreaming,
            message_create_params.MessageCreateParamsStreaming,
        )

    def read(self, client, body, stream):
        if stream:
            with client.messages.stream(**{name: each for name, each in body.items() if name != 'stream'}) as events:
                came = events.get_final_message()
        else:
            came = client.messages.create(**body)
        blocks = []
        for block in came.content:
            if block.type == 'text':
                blocks.append({'text': block.text})
            elif block.type == 'tool_use':
                blocks.append({'tool_call': [block.id, block.name, block.input]})
            else:
                blocks.append({'opaque': block.to_dict()})
        stops = {'end_turn': 'end', 'tool_use': 'end', 'stop_sequence': 'end', 'max_tokens': 'length', 'refusal': 'refused'}
        cached = came.usage.cache_read_input_tokens or 0
        usage = {
            'input': came.usage.input_tokens + cached + (came.usage.cache_creation_input_tokens or 0),
            'output': came.usage.output_tokens,
            'cached': cached,
        }
        return reading(blocks, stops.get(came.stop_reason, 'other'), usage)


class Raw(io.BytesIO):
    """An answer's body as botocore reads one."""

    def stream(self, **_):
        while piece := self.read(11):
            yield piece


class Bedrock:
    def __init__(self):
        self.client = botocore.session.Session().create_client(
            'bedrock-runtime',
            region_name='eu-central-1',
            endpoint_url='http://judge.invalid',
            aws_access_key_id='k',
            aws_secret_access_key='k',
            config=botocore.config.Config(retries={'total_max_attempts': 1}),
        )

    def judge(self, case):
        stream = case.line.endswith('/converse-stream')
        operation = 'ConverseStream' if stream else 'Converse'
        shape = self.client.meta.service_model.operation_model(operation).input_shape
        model = urllib.parse.unquote(case.path.removeprefix('/v1').split('/')[2])
        parameters = {'modelId': model, **from_wire(case.body, shape)}
        sent = []

        def answer(request, **_):
            sent.append((request.method, request.url.removeprefix('http://judge.invalid'), json.loads(request.body)))
            headers = {'content-type': case.ask['content_type'], **error_type(case)}
            return botocore.awsrequest.AWSResponse(request.url, case.ask['status'], headers, Raw(case.response))

        self.client.meta.events.register_first('before-send.bedrock-runtime.*', answer, unique_id='judge')
        try:
            call = self.client.converse_stream if stream else self.client.converse
            read = self.read(call(**parameters), stream)
        except botocore.exceptions.ParamValidationError as error:
            yield 'request', str(error)
            return
        except Exception as error:  # whatever it is, the SDK has no answer for its caller
            read = {'error': f'{type(error).__name__}: {str(error)[:300]}'}
        finally:
            self.client.meta.events.unregister('before-send.bedrock-runtime.*', unique_id='judge')
        ours = ('POST', case.path.removeprefix('/v1'), case.body)
        if sent != [ours]:
            yield 'request', f'the SDK sends {sent}'
        yield from case.compare(read)

    def read(self, came, stream):
        message = joined(came['stream']) if stream else came
        blocks = []
        for block in message['output']['message']['content']:
            if 'text' in block:
                blocks.append({'text': block['text']})
            elif 'toolUse' in block:
                use = block['toolUse']
                blocks.append({'tool_call': [use['toolUseId'], use['name'], use['input']]})
            else:
                blocks.append({'opaque': to_wire(block)})
        stops = {
            'end_turn': 'end',
            'tool_use': 'end',
            'stop_sequence': 'end',
            'max_tokens': 'length',
            'guardrail_intervened': 'refused',
            'content_filtered': 'refused',
        }
        usage = message.get('usage')
        cached = usage and usage.get('cacheReadInputTokens', 0)
        usage = usage and {
            'input': usage['inputTokens'] + cached + usage.get('cacheWriteInputTokens', 0),
            'output': usage['outputTokens'],
            'cached': cached,
        }
        return reading(blocks, stops.get(message['stopReason'], 'other'), usage)


def error_type(case):
    """AWS tells an error's type in a header."""
    return {} if case.ask['status'] == 200 else {'x-amzn-errortype': 'ValidationException'}


def from_wire(value, shape):
    """JSON of the wire as the SDK wants it: what is bytes there is base64 here."""
    if shape.type_name == 'structure' and not getattr(shape, 'is_document_type', False) and isinstance(value, dict):
        return {name: from_wire(each, shape.members[name]) if name in shape.members else each for name, each in value.items()}
    if shape.type_name == 'list':
        return [from_wire(each, shape.member) for each in value]
    return base64.b64decode(value) if shape.type_name == 'blob' else value


def to_wire(value):
    if isinstance(value, dict):
        return {name: to_wire(each) for name, each in value.items()}
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def joined(events):
    """The message of a stream: AWS's SDK hands out events, and leaves it to its callers to join them."""
    blocks, message = {}, {}
    for event in events:
        [(kind, said)] = event.items()
        if kind == 'contentBlockStart':
            blocks[said['contentBlockIndex']] = {name: {**each, 'input': ''} for name, each in said['start'].items()}
        elif kind == 'contentBlockDelta':
            block = blocks.setdefault(said['contentBlockIndex'], {})
            [(name, delta)] = said['delta'].items()
            if name == 'text':
                block['text'] = block.get('text', '') + delta
            elif name == 'toolUse':
                block['toolUse']['input'] += delta['input']
            else:
                part = block.setdefault('reasoningContent', {})
                if 'redactedContent' in delta:
                    part['redactedContent'] = delta['redactedContent']
                else:
                    whole = part.setdefault('reasoningText', {})
                    for each, piece in delta.items():
                        whole[each] = whole.get(each, '') + piece
        elif kind == 'messageStop':
            message['stopReason'] = said['stopReason']
        elif kind == 'metadata':
            message['usage'] = said.get('usage')
    for block in blocks.values():
        if 'toolUse' in block:
            block['toolUse']['input'] = arguments_of(block['toolUse']['input'])
    return {**message, 'output': {'message': {'content': list(blocks.values())}}}


# --- the corpus ------------------------------------------------------------------------------------------------------
class Case:
    def __init__(self, folder, name):
        self.key = f'{folder.name}/{name}'
        part = lambda kind: (folder / f'{name}.{kind}').read_bytes()
        self.ask, self.reply = json.loads(part('ask.json')), json.loads(part('reply.json'))
        self.response = part('response')
        self.line, body = part('request').decode().split('\n\n', 1)
        self.path, self.body = self.line.split(' ')[1], json.loads(body)

    def compare(self, read):
        if ('error' in read) != ('error' in self.reply):
            yield 'reply', f'the SDK reads {read}, we read {self.reply}'
        elif 'error' not in read and read != (ours := self.ours(read['usage'] is not None)):
            yield 'reply', f'the SDK reads {read}, we read {ours}'

    def ours(self, is_counted):
        """What we read, in the words of `reading`; where the provider does not count, we estimate."""
        blocks = []
        for block in self.reply['blocks']:
            [(kind, said)] = block.items()
            if kind == 'tool_call':
                [arguments] = said['arguments'].values()
                blocks.append({kind: [said['id'], said['name'], arguments]})
            else:
                blocks.append({kind: said['value'] if kind == 'opaque' else said})
        return reading(blocks, self.reply['stop'], self.reply['usage'] if is_counted else None)


def main(corpus):
    judges = {
        'openai': Chat(openai, openai.OpenAI, base_url=BASE),
        'openai-responses': Responses(openai, openai.OpenAI, base_url=BASE),
        'anthropic': Messages(anthropic, anthropic.Anthropic, base_url=BASE.removesuffix('/v1')),
        'bedrock': Bedrock(),
    }
    otherwise = json.loads(pathlib.Path(__file__).with_name('otherwise.json').read_bytes())
    judged, faults, met = set(), [], set()
    for dialect, judge in judges.items():
        for file in sorted((pathlib.Path(corpus) / dialect).glob('*.ask.json')):
            case = Case(file.parent, file.name.removesuffix('.ask.json'))
            judged.add(case.key)
            for part, said in judge.judge(case):
                if part in otherwise.get(case.key, {}):
                    met.add((case.key, part))
                else:
                    faults.append(f'{case.key}: {part}: {said}'.replace('\n', ' '))
    needless = {(key, part) for key in judged for part in otherwise.get(key, {})} - met
    faults += [f'{key}: {part}: is as the SDK has it, and stands in otherwise.json' for key, part in sorted(needless)]
    print('\n'.join([*faults, f'{len(judged)} judged, {len(met)} otherwise']))
    return 1 if faults else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
