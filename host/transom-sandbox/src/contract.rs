//! Does a component fit `transom:codec@0.1`? Judged by types, not by version strings (design, section 6).
//! How values cross the boundary is `since_0_1.rs`' affair.

use wit_component::DecodedWasm;
use wit_parser::{
    Function, Handle, Interface, Resolve, Type, TypeDefKind, TypeId, WorldId, WorldItem, WorldKey,
};

use crate::error::LoadError;

/// The contract's own text.
pub(crate) const TEXT: &str = include_str!("../../../wit/codec/0.1/codec.wit");

/// The interface as complaints call it: any version of the track is welcome.
const NAME: &str = "transom:codec/codec@0.1";

/// Complaints of one kind beyond these are counted, not listed.
const LISTED_MAX: usize = 20;

/// A component's outer shape, read without compiling it.
pub(crate) struct Shape {
    resolve: Resolve,
    world: WorldId,
}

impl Shape {
    /// Reads a component.
    pub(crate) fn read(bytes: &[u8]) -> Result<Shape, LoadError> {
        match wit_component::decode(bytes) {
            Ok(DecodedWasm::Component(resolve, world)) => Ok(Shape { resolve, world }),
            Ok(DecodedWasm::WitPackage(..)) => Err(LoadError::Malformed {
                detail: "it holds interfaces only, and no code".to_owned(),
            }),
            Err(error) => Err(LoadError::Malformed { detail: format!("{error:#}") }),
        }
    }

    /// The names of its imports.
    pub(crate) fn imports(&self) -> Vec<String> {
        self.items(|world| &world.imports).map(|(name, _)| name).collect()
    }

    /// The names of its exports.
    pub(crate) fn exports(&self) -> Vec<String> {
        self.items(|world| &world.exports).map(|(name, _)| name).collect()
    }

    fn items<'a>(
        &'a self,
        which: impl Fn(&'a wit_parser::World) -> &'a wit_parser::IndexMap<WorldKey, WorldItem>,
    ) -> impl Iterator<Item = (String, &'a WorldItem)> {
        let world = self.resolve.worlds.get(self.world);
        world
            .into_iter()
            .flat_map(which)
            .map(|(key, item)| (self.resolve.name_world_key(key), item))
    }

    /// Refuses whatever is not a codec, with everything that is wrong.
    pub(crate) fn is_codec(&self) -> Result<(), LoadError> {
        let names = self.imports();
        if !names.is_empty() {
            return Err(LoadError::Imports { names });
        }
        let mut differences = Differences::default();
        let mut found = None;
        for (name, item) in self.items(|world| &world.exports) {
            match item {
                WorldItem::Interface { id, .. } if of_track(&name) => {
                    found = self.resolve.interfaces.get(*id)
                }
                WorldItem::Interface { .. } => {
                    differences.extra.push(format!("the interface `{name}`"))
                }
                WorldItem::Function(_) => differences.extra.push(format!("the function `{name}`")),
                WorldItem::Type { .. } => differences.extra.push(format!("the type `{name}`")),
            }
        }
        let (contract, expected) = contract()?;
        match (contract.interfaces.get(expected), found) {
            (Some(expected), Some(found)) => {
                let mut comparison =
                    Comparison { contract: &contract, component: &self.resolve, differences };
                comparison.interface(expected, found);
                comparison.differences.verdict()
            }
            _ => {
                differences.missing.push(format!("the interface `{NAME}`"));
                differences.verdict()
            }
        }
    }
}

/// Is this the interface in any version of the track, 0.1.x?
fn of_track(name: &str) -> bool {
    name.strip_prefix(NAME).is_some_and(|patch| patch.starts_with('.'))
}

/// Parses the contract.
fn contract() -> Result<(Resolve, wit_parser::InterfaceId), LoadError> {
    let ours = |detail: String| LoadError::Malformed {
        detail: format!("the host's own contract: {detail}"),
    };
    let mut resolve = Resolve::default();
    let package =
        resolve.push_source("codec.wit", TEXT).map_err(|error| ours(format!("{error:#}")))?;
    let interface =
        resolve.packages.get(package).and_then(|package| package.interfaces.get("codec").copied());
    Ok((resolve, interface.ok_or_else(|| ours("no interface `codec`".to_owned()))?))
}

#[derive(Default)]
struct Differences {
    missing: Vec<String>,
    extra: Vec<String>,
    changed: Vec<String>,
}

impl Differences {
    fn verdict(self) -> Result<(), LoadError> {
        let Differences { mut missing, mut extra, mut changed } = self;
        if missing.is_empty() && extra.is_empty() && changed.is_empty() {
            return Ok(());
        }
        for list in [&mut missing, &mut extra, &mut changed] {
            if list.len() > LISTED_MAX {
                let more = list.len() - LISTED_MAX;
                list.truncate(LISTED_MAX);
                list.push(format!("and {more} more"));
            }
        }
        Err(LoadError::Contract { missing, extra, changed })
    }
}

struct Comparison<'a> {
    contract: &'a Resolve,
    component: &'a Resolve,
    differences: Differences,
}

impl Comparison<'_> {
    fn interface(&mut self, expected: &Interface, found: &Interface) {
        for (name, function) in &expected.functions {
            match found.functions.get(name) {
                Some(other) => self.function(function, other),
                None => self.differences.missing.push(signature(self.contract, function)),
            }
        }
        for (name, function) in &found.functions {
            if !expected.functions.contains_key(name) {
                self.differences.extra.push(signature(self.component, function));
            }
        }
    }

    fn function(&mut self, expected: &Function, found: &Function) {
        let name = plain(&expected.name);
        let of = |function: &Function| -> Vec<String> {
            function.params.iter().map(|parameter| parameter.name.clone()).collect()
        };
        if expected.kind.is_async() != found.kind.is_async() {
            self.changed(&name, "a synchronous function", "an asynchronous one");
        }
        if of(expected) != of(found) {
            self.changed(
                &name,
                &list("the parameters", &of(expected)),
                &list("the parameters", &of(found)),
            );
        }
        for (expected, found) in expected.params.iter().zip(&found.params) {
            if expected.name == found.name {
                self.types(&format!("{name}({})", expected.name), &expected.ty, &found.ty);
            }
        }
        self.optional(&format!("{name}() ->"), expected.result.as_ref(), found.result.as_ref());
    }

    fn optional(&mut self, path: &str, expected: Option<&Type>, found: Option<&Type>) {
        match (expected, found) {
            (Some(expected), Some(found)) => self.types(path, expected, found),
            (None, None) => {}
            (expected, found) => {
                let text = |resolve, ty: Option<&Type>| {
                    ty.map_or("nothing".to_owned(), |ty| short(resolve, ty))
                };
                self.changed(path, &text(self.contract, expected), &text(self.component, found));
            }
        }
    }

    fn types(&mut self, path: &str, expected: &Type, found: &Type) {
        let (contract, component) = (self.contract, self.component);
        match (kind(contract, expected), kind(component, found)) {
            (Err(expected), Err(found)) if expected == found => {}
            (Ok(TypeDefKind::Record(expected)), Ok(TypeDefKind::Record(found))) => {
                let names = |record: &wit_parser::Record| -> Vec<String> {
                    record.fields.iter().map(|field| field.name.clone()).collect()
                };
                self.names(path, "the fields", &names(expected), &names(found));
                for field in &expected.fields {
                    if let Some(other) = found.fields.iter().find(|other| other.name == field.name)
                    {
                        self.types(&format!("{path}.{}", field.name), &field.ty, &other.ty);
                    }
                }
            }
            (Ok(TypeDefKind::Variant(expected)), Ok(TypeDefKind::Variant(found))) => {
                let names = |variant: &wit_parser::Variant| -> Vec<String> {
                    variant.cases.iter().map(|case| case.name.clone()).collect()
                };
                self.names(path, "the cases", &names(expected), &names(found));
                for case in &expected.cases {
                    if let Some(other) = found.cases.iter().find(|other| other.name == case.name) {
                        self.optional(
                            &format!("{path}.{}", case.name),
                            case.ty.as_ref(),
                            other.ty.as_ref(),
                        );
                    }
                }
            }
            (Ok(TypeDefKind::Enum(expected)), Ok(TypeDefKind::Enum(found))) => {
                let names = |cases: &wit_parser::Enum| -> Vec<String> {
                    cases.cases.iter().map(|case| case.name.clone()).collect()
                };
                self.names(path, "the cases", &names(expected), &names(found));
            }
            (Ok(TypeDefKind::Tuple(expected)), Ok(TypeDefKind::Tuple(found)))
                if expected.types.len() == found.types.len() =>
            {
                for (index, (expected, found)) in
                    expected.types.iter().zip(&found.types).enumerate()
                {
                    self.types(&format!("{path}.{index}"), expected, found);
                }
            }
            (Ok(TypeDefKind::Option(expected)), Ok(TypeDefKind::Option(found))) => {
                self.types(path, expected, found)
            }
            (Ok(TypeDefKind::List(expected)), Ok(TypeDefKind::List(found))) => {
                self.types(&format!("{path}[]"), expected, found);
            }
            (Ok(TypeDefKind::Result(expected)), Ok(TypeDefKind::Result(found))) => {
                self.optional(&format!("{path} ok"), expected.ok.as_ref(), found.ok.as_ref());
                self.optional(&format!("{path} error"), expected.err.as_ref(), found.err.as_ref());
            }
            (Ok(TypeDefKind::Handle(expected)), Ok(TypeDefKind::Handle(found)))
                if handle(contract, expected) == handle(component, found) => {}
            _ => self.changed(path, &short(contract, expected), &short(component, found)),
        }
    }

    fn names(&mut self, path: &str, what: &str, expected: &[String], found: &[String]) {
        if expected != found {
            self.changed(path, &list(what, expected), &list(what, found));
        }
    }

    fn changed(&mut self, path: &str, expected: &str, found: &str) {
        self.differences.changed.push(format!("`{path}`: expected {expected}, found {found}"));
    }
}

/// `[method]connection.handle` as people write it.
fn plain(name: &str) -> String {
    name.split_once(']').map_or(name, |(_, rest)| rest).to_owned()
}

fn list(what: &str, names: &[String]) -> String {
    if names.is_empty() {
        format!("none of {what}")
    } else {
        format!("{what} {}", names.join(", "))
    }
}

/// The structure behind a type's names, or the primitive that it is.
fn kind<'a>(resolve: &'a Resolve, ty: &Type) -> Result<&'a TypeDefKind, Type> {
    let mut ty = *ty;
    while let Type::Id(id) = ty {
        match resolve.types.get(id).map(|definition| &definition.kind) {
            Some(TypeDefKind::Type(alias)) => ty = *alias,
            Some(kind) => return Ok(kind),
            None => break,
        }
    }
    Err(ty)
}

fn handle(resolve: &Resolve, handle: &Handle) -> String {
    let name =
        |id: TypeId| resolve.types.get(id).and_then(|ty| ty.name.clone()).unwrap_or_default();
    match handle {
        Handle::Own(id) => name(*id),
        Handle::Borrow(id) => format!("borrow<{}>", name(*id)),
    }
}

fn signature(resolve: &Resolve, function: &Function) -> String {
    let parameters: Vec<String> = function
        .params
        .iter()
        .filter(|parameter| parameter.name != "self")
        .map(|parameter| format!("{}: {}", parameter.name, short(resolve, &parameter.ty)))
        .collect();
    let result = function.result.map_or(String::new(), |ty| format!(" -> {}", short(resolve, &ty)));
    format!("`{}: func({}){result}`", plain(&function.name), parameters.join(", "))
}

/// A type in one line: names where there are any.
fn short(resolve: &Resolve, ty: &Type) -> String {
    let Type::Id(id) = ty else { return primitive(ty).to_owned() };
    let Some(definition) = resolve.types.get(*id) else { return "an unknown type".to_owned() };
    // An alias is another name for a type, and types are what counts.
    if let TypeDefKind::Type(ty) = &definition.kind {
        return short(resolve, ty);
    }
    if let Some(name) = &definition.name {
        return name.clone();
    }
    let side = |ty: &Option<Type>| ty.map_or("_".to_owned(), |ty| short(resolve, &ty));
    match &definition.kind {
        TypeDefKind::Option(ty) => format!("option<{}>", short(resolve, ty)),
        TypeDefKind::List(ty) => format!("list<{}>", short(resolve, ty)),
        TypeDefKind::Result(result) => {
            format!("result<{}, {}>", side(&result.ok), side(&result.err))
        }
        TypeDefKind::Tuple(tuple) => {
            let types: Vec<String> = tuple.types.iter().map(|ty| short(resolve, ty)).collect();
            format!("tuple<{}>", types.join(", "))
        }
        TypeDefKind::Handle(of) => handle(resolve, of),
        other => other.as_str().to_owned(),
    }
}

fn primitive(ty: &Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::U8 => "u8",
        Type::U16 => "u16",
        Type::U32 => "u32",
        Type::U64 => "u64",
        Type::S8 => "s8",
        Type::S16 => "s16",
        Type::S32 => "s32",
        Type::S64 => "s64",
        Type::F32 => "f32",
        Type::F64 => "f64",
        Type::Char => "char",
        Type::String => "string",
        Type::ErrorContext => "error-context",
        Type::Id(_) => "a defined type",
    }
}

#[cfg(test)]
mod tests;
