//! The head of a policy: whom, which actions and which resources it is about.

use std::collections::HashSet;

use cedar_policy::{ActionConstraint, EntityTypeName, EntityUid, Policy, PrincipalConstraint, ResourceConstraint};

/// Who or what a part of a head fits.
#[derive(Debug, Clone)]
enum Part {
    Any,
    Is(EntityTypeName),
    /// One of these, or in one of these, and of this type where there is one.
    In(Vec<EntityUid>, Option<EntityTypeName>),
    Equal(EntityUid),
}

/// The three parts of a head.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    principal: Part,
    action: Part,
    resource: Part,
}

/// Something with all that it is in.
#[derive(Debug, Clone)]
pub(super) struct EntityPlace {
    pub(super) uid: EntityUid,
    pub(super) parents: HashSet<EntityUid>,
}

// === impl Scope ===

impl Scope {
    pub(super) fn of(policy: &Policy) -> Self {
        let principal = match policy.principal_constraint() {
            PrincipalConstraint::Any => Part::Any,
            PrincipalConstraint::In(of) => Part::In(vec![of], None),
            PrincipalConstraint::Eq(it) => Part::Equal(it),
            PrincipalConstraint::Is(of) => Part::Is(of),
            PrincipalConstraint::IsIn(of_type, of) => Part::In(vec![of], Some(of_type)),
        };
        let action = match policy.action_constraint() {
            ActionConstraint::Any => Part::Any,
            ActionConstraint::In(of) => Part::In(of, None),
            ActionConstraint::Eq(it) => Part::Equal(it),
        };
        let resource = match policy.resource_constraint() {
            ResourceConstraint::Any => Part::Any,
            ResourceConstraint::In(of) => Part::In(vec![of], None),
            ResourceConstraint::Eq(it) => Part::Equal(it),
            ResourceConstraint::Is(of) => Part::Is(of),
            ResourceConstraint::IsIn(of_type, of) => Part::In(vec![of], Some(of_type)),
        };
        Self { principal, action, resource }
    }

    pub(super) fn fits_principal(&self, it: &EntityPlace) -> bool {
        self.principal.fits(it)
    }

    pub(super) fn fits_action(&self, it: &EntityPlace) -> bool {
        self.action.fits(it)
    }

    pub(super) fn fits_resource(&self, it: &EntityPlace) -> bool {
        self.resource.fits(it)
    }
}

// === impl Part ===

impl Part {
    fn fits(&self, it: &EntityPlace) -> bool {
        match self {
            Self::Any => true,
            Self::Is(of_type) => it.uid.type_name() == of_type,
            Self::Equal(wanted) => it.uid == *wanted,
            Self::In(wanted, of_type) => {
                of_type.as_ref().is_none_or(|of_type| it.uid.type_name() == of_type)
                    && wanted.iter().any(|wanted| it.uid == *wanted || it.parents.contains(wanted))
            }
        }
    }
}
