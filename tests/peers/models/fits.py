# fits.py: whether JSON is of a type that an SDK publishes for its callers, strictly: pydantic would make a number of a
# text, and its objects take members that nobody knows.
import collections.abc
import types
import typing

import typing_extensions


def misfit(value, kind, at):
    """Why a value is not of this type, told at the deepest place; None if it is."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Required, typing.NotRequired, typing.Annotated, typing_extensions.ReadOnly):
        return misfit(value, arguments[0], at)
    if kind in (typing.Any, object):
        return None
    if origin in (typing.Union, types.UnionType):
        said = [misfit(value, each, at) for each in arguments]
        return None if None in said else max(said, key=lambda each: len(each.split(' ')[0]))
    if origin is typing.Literal:
        return None if value in arguments else f'{at} is {value!r}, not one of {arguments}'
    if typing_extensions.is_typeddict(kind):
        return misfit_of_object(value, kind, at)
    if origin is dict:
        if type(value) is not dict:
            return f'{at} is no object'
        return next((said for name, each in value.items() if (said := misfit(each, arguments[1], f'{at}.{name}'))), None)
    if origin and issubclass(origin, collections.abc.Iterable) or getattr(origin, '__name__', '') == 'SequenceNotStr':
        if type(value) is not list:
            return f'{at} is no list'
        return next((said for n, each in enumerate(value) if (said := misfit(each, arguments[0], f'{at}[{n}]'))), None)
    if kind is float:
        return None if type(value) in (int, float) else f'{at} is no number'
    return None if type(value) is kind else f'{at} is no {getattr(kind, "__name__", kind)}'


def misfit_of_object(value, kind, at):
    if type(value) is not dict:
        return f'{at} is no object'
    members = typing_extensions.get_type_hints(kind, include_extras=True)
    for name, each in members.items():
        # Annotations are texts in the SDKs, so that the class itself does not know what they say of this.
        origin = typing.get_origin(each)
        is_required = origin is typing.Required or (name in kind.__required_keys__ and origin is not typing.NotRequired)
        if is_required and name not in value:
            return f'{at} lacks {name} of {kind.__name__}'
    for name, each in value.items():
        if name not in members:
            return f'{at}.{name} is not in {kind.__name__}'
        if said := misfit(each, members[name], f'{at}.{name}'):
            return said
    return None
